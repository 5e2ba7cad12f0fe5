-- Processes and their leases, in a file of their own that never waits for a long write.

create table process (
    id          text    primary key,
    name        text    not null,
    host        text    not null,
    pid         integer not null,
    state       text    not null check (state in ('alive', 'stopped', 'dead')),
    started_at  integer not null,
    beat_at     integer not null,
    lease_until integer not null,
    is_settled  integer not null default 0 check (is_settled in (0, 1))
) strict;
create index process_by_lease on process (lease_until) where state = 'alive';
create index process_unsettled on process (id) where state = 'dead' and is_settled = 0;

create table clock_shift (
    one       integer primary key check (one = 1),
    offset_us integer not null
) strict;
insert into clock_shift (one, offset_us) values (1, 0);
