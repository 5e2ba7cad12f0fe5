-- Data sets: what a run has made, where it is, and what it was made from.

create table data_set (
    seq        bigint  generated always as identity primary key,
    id         uuid    not null unique,
    kind       text    not null check (kind <> ''),
    -- What it is about, such as a site; and who made it, such as the run of an actor.
    subject    text    not null,
    origin     text    not null,
    -- Where it is, as `scheme:rest`.
    place      text    not null check (strpos(place, ':') > 1),
    state      text    not null check (state in ('making', 'ready', 'deleting', 'deleted')),
    records    bigint  check (records >= 0),
    bytes      bigint  check (bytes >= 0),
    -- What else is worth knowing of it, as a JSON object.
    facts      json    not null default '{}',
    -- Why it was deleted.
    reason     text,
    begun_at   bigint  not null,
    ready_at   bigint,
    deleted_at bigint,
    constraint ready_is_counted check (state <> 'ready' or (records is not null and bytes is not null)),
    constraint ready_has_a_time check (state <> 'ready' or ready_at is not null),
    constraint making_is_not_counted check (state <> 'making' or (records is null and bytes is null)),
    constraint making_has_no_time check (state <> 'making' or ready_at is null),
    constraint deleted_has_a_time check ((state = 'deleted') = (deleted_at is not null)),
    constraint deleted_has_a_reason check ((state in ('deleting', 'deleted')) = (reason is not null))
);
-- Two that are ready would be the same bytes under two names.
create unique index data_set_ready_at_place on data_set (place) where state = 'ready';
create index data_set_by_kind on data_set (kind, subject, seq);
create index data_set_unsettled on data_set (state, seq) where state in ('making', 'deleting');

create table data_set_parent (
    child_id  uuid not null references data_set (id),
    parent_id uuid not null references data_set (id),
    primary key (child_id, parent_id),
    constraint not_its_own_parent check (child_id <> parent_id)
);
create index data_set_by_parent on data_set_parent (parent_id);
