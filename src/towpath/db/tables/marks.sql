-- name: last_writer
-- Launch, generation and batch that came last to an output.
select launch, generation, batch_id from towpath_launch where flow = :flow and stage = :stage and output = :output;

-- name: come_last
-- Be the last writer of an output, unless a later one is there.
insert into towpath_launch (flow, stage, output, launch, generation, batch_id)
values (:flow, :stage, :output, :launch, :generation, :batch_id)
on conflict (flow, stage, output) do update
set launch = excluded.launch, generation = excluded.generation, batch_id = excluded.batch_id
where (towpath_launch.launch, towpath_launch.generation, towpath_launch.batch_id)
    < (excluded.launch, excluded.generation, excluded.batch_id);

-- name: older_marks
-- Not a query: the marks of batches that nobody tries again.
select flow, stage, output, generation, batch_id, unit, part from towpath_mark
where flow = :flow and stage = :stage and output = :output
    and (generation < :generation or (generation = :generation and batch_id < :oldest));

-- name: has_older_marks
-- Whether there is something to forget.
select 1 from ($older_marks) as older limit 1;

-- name: marks_of_unit
-- What of a unit is in.
select part, rows, digest, refused from towpath_mark
where flow = :flow and stage = :stage and output = :output and generation = :generation and batch_id = :batch_id
    and unit = :unit;

-- name: mark_values
-- Not a query: a new mark.
insert into towpath_mark (
    flow, stage, output, generation, batch_id, unit, part, launch, rows, digest, refused, written_at
)
values (
    :flow, :stage, :output, :generation, :batch_id, :unit, :part, :launch, :rows, :digest, :refused, current_timestamp
)
on conflict (flow, stage, output, generation, batch_id, unit, part);

-- name: claim_mark
-- Hold the place of a mark, so that a twin of this writer waits until the transaction has ended.
$mark_values do nothing;

-- name: put_mark
-- Say that a part is in.
$mark_values do update
set launch = excluded.launch, rows = excluded.rows, digest = excluded.digest, refused = excluded.refused,
    written_at = excluded.written_at;
