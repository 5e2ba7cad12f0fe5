-- name: last_writer_held
-- The last writer, who cannot change before this transaction ends.
select launch, generation, batch_id from towpath_launch where flow = :flow and stage = :stage and output = :output
for share;

-- name: forget_older_marks
-- Delete the marks of batches that nobody tries again; what another deletes at this moment is left to him.
delete from towpath_mark where (flow, stage, output, generation, batch_id, unit, part) in ($older_marks for update skip locked);

-- name: make_towpath_mark
-- A row for each part that is in.
create table if not exists towpath_mark (
    flow text not null,
    stage text not null,
    output text not null,
    generation bigint not null,
    batch_id bigint not null,
    unit text not null,
    part bigint not null,
    launch bigint not null,
    rows bigint not null,
    digest text not null,
    refused text not null,
    written_at timestamptz not null,
    primary key (flow, stage, output, generation, batch_id, unit, part)
);

-- name: make_towpath_launch
-- A row for each output.
create table if not exists towpath_launch (
    flow text not null,
    stage text not null,
    output text not null,
    launch bigint not null,
    generation bigint not null,
    batch_id bigint not null,
    primary key (flow, stage, output)
);
