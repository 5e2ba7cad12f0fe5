-- Events, inboxes and messages. All times are microseconds since 1970, UTC, by the database's clock.

create table event (
    seq     integer primary key autoincrement,
    at      integer not null,
    kind    text    not null check (kind <> ''),
    subject text    not null,
    who     text    not null check (who <> ''),
    why     text    not null default '',
    data    text    not null default '{}' check (json_valid(data))
) strict;
create index event_by_subject on event (subject, seq);
create index event_by_kind on event (kind, seq);
create index event_by_age on event (at);
-- Several processes may find the same one dead at once; it dies once.
create unique index event_of_death on event (subject) where kind = 'process_died';

create table inbox (
    name           text    primary key check (name <> ''),
    on_owner_death text    not null check (on_owner_death in ('again', 'err', 'dead')),
    max_attempts   integer not null check (max_attempts >= 1),
    created_at     integer not null
) strict;

create table message (
    seq           integer primary key,
    id            text    not null,
    related_id    text,
    audit_id      text,
    inbox         text    not null check (inbox <> ''),
    reply_to      text,
    function      text    not null check (function <> ''),
    payload       text    not null check (json_valid(payload)),
    headers       text    not null default '{}' check (json_valid(headers)),
    state         text    not null default 'NEW' check (state in ('NEW', 'ACK', 'OK', 'ERR', 'DEAD')),
    owner         text,
    owner_tick    integer,
    attempts      integer not null default 0,
    give_backs    integer not null default 0,
    deliver_after integer,
    ttl_s         real    check (ttl_s > 0),
    expires_at    integer,
    reason        text,
    created_at    integer not null,
    updated_at    integer not null,
    constraint new_has_no_owner check (state <> 'NEW' or (owner is null and owner_tick is null)),
    constraint ack_has_an_owner check (state <> 'ACK' or (owner is not null and owner_tick is not null)),
    constraint ack_is_not_delayed check (state <> 'ACK' or deliver_after is null)
) strict;
-- Few indexes, since each costs a page for every message. Waiting and claimed messages share one: in it the claimed
-- ones of an inbox end where the waiting ones begin, so that a claim moves its entry within one page.
create unique index message_by_id on message (id);
create index message_live on message (inbox, state, seq)
    where deliver_after is null and (state = 'NEW' or state = 'ACK');
create index message_due on message (inbox, deliver_after) where state = 'NEW' and deliver_after is not null;
create index message_expiring on message (expires_at) where state = 'NEW' and expires_at is not null;
create index message_by_related on message (related_id) where related_id is not null;
create index message_by_audit on message (audit_id) where audit_id is not null;

create view message_readable as
select seq, id, inbox, function, state, owner, attempts, give_backs, reason, reply_to, related_id, audit_id, payload, headers,
       strftime('%Y-%m-%d %H:%M:%f', created_at / 1000000.0, 'unixepoch') as created,
       strftime('%Y-%m-%d %H:%M:%f', updated_at / 1000000.0, 'unixepoch') as updated,
       strftime('%Y-%m-%d %H:%M:%f', deliver_after / 1000000.0, 'unixepoch') as due,
       strftime('%Y-%m-%d %H:%M:%f', expires_at / 1000000.0, 'unixepoch') as expires
from message;
