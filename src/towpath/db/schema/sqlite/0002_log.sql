-- Topics, partitions, records, positions of groups, and producers. Record times are milliseconds since 1970.

create table log_topic (
    id           text    primary key check (id <> ''),
    name         text    not null check (name <> ''),
    retention_ms integer check (retention_ms > 0),
    created_at   integer not null,
    -- Since when the topic is gone for everybody. Its records go in small portions, and this row with the last.
    deleted_at   integer
) strict;
create unique index log_topic_by_name on log_topic (name) where deleted_at is null;

create table log_partition (
    id           integer primary key autoincrement check (id < 8388608),
    topic_id     text    not null references log_topic (id),
    number       integer not null check (number >= 0),
    start_offset integer not null default 0 check (start_offset >= 0),
    next_offset  integer not null default 0 check (next_offset < 1099511627776),
    constraint start_is_not_beyond_end check (start_offset <= next_offset)
) strict;
create unique index log_partition_by_number on log_partition (topic_id, number);

-- A record's place is the id of its partition times 2^40 plus its offset: a range of a partition is a range of the
-- primary key, and no second index has to be written.
create table log_record (
    place        integer primary key,
    timestamp_ms integer not null,
    key          blob,
    value        blob,
    headers      text    check (headers is null or json_valid(headers))
) strict;

create table log_position (
    group_name text    not null check (group_name <> ''),
    topic_id   text    not null references log_topic (id),
    number     integer not null check (number >= 0),
    next       integer not null check (next >= 0),
    primary key (group_name, topic_id, number)
) strict, without rowid;
create index log_position_by_topic on log_position (topic_id, number);

-- The living producer of a name is the one with the highest epoch; the others are fenced.
create table log_producer (
    name      text    primary key check (name <> ''),
    epoch     integer not null check (epoch >= 1),
    opened_at integer not null
) strict;

create view log_record_readable as
select t.name as topic, p.number as partition, r.place - (p.id << 40) as offset,
       strftime('%Y-%m-%d %H:%M:%f', r.timestamp_ms / 1000.0, 'unixepoch') as time,
       cast(r.key as text) as key, cast(r.value as text) as value, r.headers
from log_topic as t
join log_partition as p on p.topic_id = t.id
join log_record as r on r.place >= (p.id << 40) + p.start_offset and r.place < (p.id << 40) + p.next_offset
where t.deleted_at is null;
