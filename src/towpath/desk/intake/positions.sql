-- name: positions
-- How far the desk is in the topics of a flow.
select topic, topic_id, partition, kind, position, records, repeats from desk_position where flow = :flow;

-- name: begin_position
-- The desk begins with a partition. No row: it has begun.
insert into desk_position (flow, topic, topic_id, partition, kind, position, moved_at)
values (:flow, :topic, :topic_id, :partition, :kind, :position, :now)
on conflict (flow, topic_id, partition) do nothing;

-- name: move_position
-- The desk has come further. No row: another one was faster.
update desk_position
set position = :to, records = records + :records, moved_at = :now
where flow = :flow and topic_id = :topic_id and partition = :partition and position = :from_position
returning position;

-- name: count_repeats
-- Some of what was read had been told before.
update desk_position set repeats = repeats + :repeats
where flow = :flow and topic_id = :topic_id and partition = :partition;
