-- Upkeep of the desk: what is past its time can be found, and what was called back is known to the flow.

-- When a trace was last needed, and when a count was last raised.
alter table desk_trace add column seen_at integer not null default 0;
alter table desk_evidence add column moved_at integer not null default 0;
update desk_evidence set moved_at = cast((julianday('now') - 2440587.5) * 86400 as integer) * 1000000;

-- Records that were sent back into a flow and called back before it has read them: its stage passes over them.
create table flow_recalled (
    flow        text    not null check (flow <> ''),
    -- The case, as the record names it, and the ticket under which it was sent.
    correlation text    not null check (correlation <> ''),
    ticket      integer not null check (ticket >= 0),
    recalled_at integer not null,
    primary key (flow, correlation, ticket)
) strict, without rowid;
