-- Access: who may do what, by password or key; what was done in whose name; requests that must not be done twice.

create table access_user (
    name        text    primary key check (name <> '' and length(name) <= 80),
    role        text    not null check (role in ('viewer', 'operator', 'admin')),
    -- What a password was turned into, with all that is needed to do it again; null: cannot log in with one.
    password    text    check (password <> ''),
    disabled_at integer,
    made_at     integer not null,
    password_at integer,
    constraint password_has_a_time check ((password is null) = (password_at is null))
) strict, without rowid;

create table access_key (
    seq        integer primary key,
    id         text    not null unique check (length(id) = 36),
    -- How it begins, by which people name it. The key itself is kept nowhere: only what it hashes to.
    prefix     text    not null unique check (length(prefix) >= 8),
    hash       text    not null unique check (length(hash) = 64),
    user_name  text    not null references access_user (name),
    label      text    not null check (label <> ''),
    -- What may be done with it, as a JSON list; never more than its user's role allows.
    scopes     text    not null check (json_valid(scopes)),
    made_by    text    not null check (made_by <> ''),
    made_at    integer not null,
    expires_at integer,
    revoked_at integer,
    revoked_by text    check (revoked_by <> ''),
    used_at    integer,
    constraint revoked_by_somebody check ((revoked_at is null) = (revoked_by is null)),
    constraint ends_after_it_was_made check (expires_at > made_at)
) strict;
create index access_key_by_user on access_key (user_name, seq);

-- Log-ins that failed lately, by name and by address: who fails often waits longer.
create table access_failure (
    subject  text    primary key check (subject <> ''),
    failures integer not null check (failures >= 0),
    last_at  integer not null
) strict, without rowid;
create index access_failure_by_age on access_failure (last_at);

-- What was asked for in whose name, and what came of it. `begun` for ever: the process died, and events tell the rest.
create table access_audit (
    seq     integer primary key,
    at      integer not null,
    who     text    not null check (who <> ''),
    -- How they were known: `key:<id>`, `session:<id>`, `password` or `terminal`.
    known_by text   not null check (known_by <> ''),
    what    text    not null check (what <> ''),
    subject text    not null,
    outcome text    not null check (outcome in ('begun', 'done', 'refused', 'failed')),
    reason  text    not null default '',
    -- The id of the request; empty for changes from a terminal.
    request text    not null default ''
) strict;
create index access_audit_by_age on access_audit (at);
create index access_audit_by_who on access_audit (who, seq);
create index access_audit_by_subject on access_audit (subject, seq);

-- Requests with an idempotency key, for a day: the same one again gets the same answer.
create table access_request (
    who       text    not null check (who <> ''),
    key       text    not null check (key <> ''),
    -- What was asked: method, path and body, as one hash.
    asked     text    not null check (length(asked) = 64),
    state     text    not null check (state in ('running', 'made', 'answered')),
    -- The process that is at it.
    owner     text    not null check (owner <> ''),
    status    integer check (status between 200 and 599),
    answer    text,
    audit_seq integer not null,
    made_at   integer not null,
    primary key (who, key),
    constraint answered_has_a_status check ((state = 'answered') = (status is not null))
) strict, without rowid;
create index access_request_by_age on access_request (made_at);
