-- name: last_writer_held
-- The last writer, who cannot change before this transaction ends: whoever writes has the file to himself.
select launch, generation, batch_id from towpath_launch where flow = :flow and stage = :stage and output = :output;

-- name: forget_older_marks
-- Delete the marks of batches that nobody tries again.
delete from towpath_mark where (flow, stage, output, generation, batch_id, unit, part) in ($older_marks);

-- name: make_towpath_mark
-- A row for each part that is in.
create table if not exists towpath_mark (
    flow text not null,
    stage text not null,
    output text not null,
    generation integer not null,
    batch_id integer not null,
    unit text not null,
    part integer not null,
    launch integer not null,
    rows integer not null,
    digest text not null,
    refused text not null,
    written_at text not null,
    primary key (flow, stage, output, generation, batch_id, unit, part)
) strict, without rowid;

-- name: make_towpath_launch
-- A row for each output.
create table if not exists towpath_launch (
    flow text not null,
    stage text not null,
    output text not null,
    launch integer not null,
    generation integer not null,
    batch_id integer not null,
    primary key (flow, stage, output)
) strict, without rowid;
