-- Processes, events, inboxes and messages. All times are microseconds since 1970, UTC, by the database's clock.

create table clock_shift (
    one       integer primary key check (one = 1),
    offset_us bigint  not null
);
insert into clock_shift (one, offset_us) values (1, 0);

create function towpath_now() returns bigint language sql stable parallel safe as
$$ select (extract(epoch from statement_timestamp()) * 1000000)::bigint + (select offset_us from clock_shift) $$;

create table process (
    id          text    primary key,
    name        text    not null,
    host        text    not null,
    pid         integer not null,
    state       text    not null check (state in ('alive', 'stopped', 'dead')),
    started_at  bigint  not null,
    beat_at     bigint  not null,
    lease_until bigint  not null,
    is_settled  integer not null default 0 check (is_settled in (0, 1))
);
create index process_by_lease on process (lease_until) where state = 'alive';
create index process_unsettled on process (id) where state = 'dead' and is_settled = 0;

create table event (
    seq     bigint generated always as identity primary key,
    at      bigint not null,
    kind    text   not null check (kind <> ''),
    subject text   not null,
    who     text   not null check (who <> ''),
    why     text   not null default '',
    data    json   not null default '{}'
);
create index event_by_subject on event (subject, seq);
create index event_by_kind on event (kind, seq);
create index event_by_age on event (at);
-- Several processes may find the same one dead at once; it dies once.
create unique index event_of_death on event (subject) where kind = 'process_died';

create table inbox (
    name           text    primary key check (name <> ''),
    on_owner_death text    not null check (on_owner_death in ('again', 'err', 'dead')),
    max_attempts   integer not null check (max_attempts >= 1),
    created_at     bigint  not null
);

create table message (
    seq           bigint generated always as identity primary key,
    id            uuid    not null,
    related_id    uuid,
    audit_id      uuid,
    inbox         text    not null check (inbox <> ''),
    reply_to      text,
    function      text    not null check (function <> ''),
    payload       json    not null,
    headers       json    not null default '{}',
    state         text    not null default 'NEW' check (state in ('NEW', 'ACK', 'OK', 'ERR', 'DEAD')),
    owner         text,
    owner_tick    bigint,
    attempts      integer not null default 0,
    give_backs    integer not null default 0,
    deliver_after bigint,
    ttl_s         double precision check (ttl_s > 0),
    expires_at    bigint,
    reason        text,
    created_at    bigint  not null,
    updated_at    bigint  not null,
    constraint new_has_no_owner check (state <> 'NEW' or (owner is null and owner_tick is null)),
    constraint ack_has_an_owner check (state <> 'ACK' or (owner is not null and owner_tick is not null)),
    constraint ack_is_not_delayed check (state <> 'ACK' or deliver_after is null)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05,
        autovacuum_analyze_scale_factor = 0.02);
-- Few indexes, since each costs a page for every message. Waiting and claimed messages share one: in it the claimed
-- ones of an inbox end where the waiting ones begin, so that a claim moves its entry within one page.
create unique index message_by_id on message (id);
-- `seq + 0`, so that no plan can walk the primary key through a million finished messages instead.
create index message_live on message (inbox, state, (seq + 0))
    where deliver_after is null and (state = 'NEW' or state = 'ACK');
create index message_due on message (inbox, deliver_after) where state = 'NEW' and deliver_after is not null;
create index message_expiring on message (expires_at) where state = 'NEW' and expires_at is not null;
create index message_by_related on message (related_id) where related_id is not null;
create index message_by_audit on message (audit_id) where audit_id is not null;

create view message_readable as
select seq, id, inbox, function, state, owner, attempts, give_backs, reason, reply_to, related_id, audit_id, payload, headers,
       to_timestamp(created_at / 1000000.0) as created, to_timestamp(updated_at / 1000000.0) as updated,
       to_timestamp(deliver_after / 1000000.0) as due, to_timestamp(expires_at / 1000000.0) as expires
from message;
