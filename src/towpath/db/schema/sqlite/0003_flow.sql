-- Stages of flows, the ledger of their batches, and what they will never read.

create table flow_stage (
    flow       text    not null check (flow <> ''),
    stage      text    not null check (stage <> ''),
    -- Raised by every new checkpoint; 0 until the first.
    generation integer not null default 0 check (generation >= 0),
    topology   text    not null check (json_valid(topology)),
    version    text    not null,
    checkpoint text    not null default '',
    topics     text    not null default '{}' check (json_valid(topics)),
    starting   text    not null default '[]' check (json_valid(starting)),
    owner      text,
    -- Raised whenever a process takes the stage: sinks know by it who came later.
    launch     integer not null default 0 check (launch >= 0),
    state      text    not null check (state in ('configure', 'extract', 'transform', 'load', 'errors', 'retry', 'held',
                                                 'reset', 'paused', 'stopped', 'halted')),
    pilot      text    not null check (json_valid(pilot)),
    judge      text    not null default '{}' check (json_valid(judge)),
    sample     text    not null default '{}' check (json_valid(sample)),
    totals     text    not null default '{}' check (json_valid(totals)),
    wish       text    check (wish in ('pause', 'resume', 'stop', 'reset')),
    wish_who   text    check (wish_who <> ''),
    wish_why   text,
    wish_at    integer,
    wish_args  text    check (wish_args is null or json_valid(wish_args)),
    created_at integer not null,
    updated_at integer not null,
    primary key (flow, stage),
    constraint only_the_resting_have_no_owner check (owner is not null or state in ('paused', 'stopped', 'halted')),
    constraint state_is_the_pilots check (coalesce(json_extract(pilot, '$.state'), '') = state),
    constraint wish_is_whole check ((wish is null) = (wish_who is null) and (wish is null) = (wish_why is null)
                                    and (wish is null) = (wish_at is null) and (wish is null) = (wish_args is null))
) strict;

create table flow_batch (
    flow         text    not null,
    stage        text    not null,
    generation   integer not null check (generation >= 1),
    batch_id     integer not null check (batch_id >= 0),
    hash         text    not null check (length(hash) = 64),
    positions    text    not null check (json_valid(positions)),
    units        text    not null check (json_valid(units)),
    state        text    not null check (state in ('snapshot', 'decided', 'ahead', 'committed', 'superseded')),
    attempts     integer not null default 1 check (attempts >= 1),
    counts       text    not null default '{}' check (json_valid(counts)),
    digests      text    not null default '{}' check (json_valid(digests)),
    timings      text    not null default '{}' check (json_valid(timings)),
    started_at   integer not null,
    decided_at   integer,
    committed_at integer,
    primary key (flow, stage, generation, batch_id),
    foreign key (flow, stage) references flow_stage (flow, stage),
    constraint committed_has_a_time check ((state = 'committed') = (committed_at is not null)),
    constraint decided_has_a_time check (state <> 'decided' or decided_at is not null)
) strict;
-- A stage works on one batch at a time.
create unique index flow_batch_open on flow_batch (flow, stage) where state in ('snapshot', 'decided', 'ahead');

create table flow_gap (
    flow         text    not null,
    stage        text    not null,
    generation   integer not null check (generation >= 1),
    topic        text    not null check (topic <> ''),
    topic_id     text    not null check (topic_id <> ''),
    partition    integer not null check (partition >= 0),
    start_offset integer not null check (start_offset >= 0),
    stop_offset  integer not null,
    reason       text    not null,
    batch_id     integer,
    noticed_at   integer not null,
    primary key (flow, stage, generation, topic_id, partition, start_offset),
    foreign key (flow, stage) references flow_stage (flow, stage),
    constraint gap_is_not_empty check (start_offset < stop_offset)
) strict;
