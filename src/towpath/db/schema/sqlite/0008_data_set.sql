-- Data sets: what a run has made, where it is, and what it was made from.

create table data_set (
    seq        integer primary key,
    id         text    not null unique check (length(id) = 36),
    kind       text    not null check (kind <> ''),
    -- What it is about, such as a site; and who made it, such as the run of an actor.
    subject    text    not null,
    origin     text    not null,
    -- Where it is, as `scheme:rest`.
    place      text    not null check (instr(place, ':') > 1),
    state      text    not null check (state in ('making', 'ready', 'deleting', 'deleted')),
    records    integer check (records >= 0),
    bytes      integer check (bytes >= 0),
    -- What else is worth knowing of it, as a JSON object.
    facts      text    not null default '{}' check (json_valid(facts)),
    -- Why it was deleted.
    reason     text,
    begun_at   integer not null,
    ready_at   integer,
    deleted_at integer,
    constraint ready_is_counted check (state <> 'ready' or (records is not null and bytes is not null)),
    constraint ready_has_a_time check (state <> 'ready' or ready_at is not null),
    constraint making_is_not_counted check (state <> 'making' or (records is null and bytes is null)),
    constraint making_has_no_time check (state <> 'making' or ready_at is null),
    constraint deleted_has_a_time check ((state = 'deleted') = (deleted_at is not null)),
    constraint deleted_has_a_reason check ((state in ('deleting', 'deleted')) = (reason is not null))
) strict;
-- Two that are ready would be the same bytes under two names.
create unique index data_set_ready_at_place on data_set (place) where state = 'ready';
create index data_set_by_kind on data_set (kind, subject, seq);
create index data_set_unsettled on data_set (state, seq) where state in ('making', 'deleting');

create table data_set_parent (
    child_id  text not null references data_set (id),
    parent_id text not null references data_set (id),
    primary key (child_id, parent_id),
    constraint not_its_own_parent check (child_id <> parent_id)
) strict, without rowid;
create index data_set_by_parent on data_set_parent (parent_id);
