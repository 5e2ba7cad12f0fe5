-- Keys of which a record has failed, in flows that keep the records of a key in order.

create table flow_held_key (
    flow     text   not null,
    stage    text   not null,
    -- The first 32 hexadecimal digits of the key's SHA-256.
    key_hash text   not null check (length(key_hash) = 32),
    -- Records of the key that the stage has sent to the error topic, and those of them that are done with.
    sent     integer not null default 0 check (sent >= 0),
    settled  integer not null default 0 check (settled >= 0),
    held_at  integer not null,
    primary key (flow, stage, key_hash)
) strict;
