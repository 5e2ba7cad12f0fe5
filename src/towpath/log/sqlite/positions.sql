-- name: read_positions
-- Where a group is.
select t.name, l.number, l.next
from log_position as l join log_topic as t on t.id = l.topic_id
where l.group_name = :group and t.deleted_at is null
order by t.name, l.number;

-- name: set_position
-- Where a group is in one partition. No row: there is no such partition.
insert into log_position (group_name, topic_id, number, next)
select :group, t.id, p.number, :next
from log_topic as t join log_partition as p on p.topic_id = t.id
where t.name = :topic and t.deleted_at is null and p.number = :partition
on conflict (group_name, topic_id, number) do update set next = excluded.next;

-- name: list_groups
-- All groups with a position, without those that producers keep for themselves.
select distinct l.group_name
from log_position as l join log_topic as t on t.id = l.topic_id
where t.deleted_at is null and l.group_name not like '\_\_%' escape '\'
order by l.group_name;

-- name: forget_group
-- Delete the positions of a group.
delete from log_position where group_name = :group;

-- name: forget_topic
-- Delete all positions in a topic.
delete from log_position where topic_id = :topic_id;

-- name: open_producer
-- From now on the older ones of this name are fenced.
insert into log_producer (name, epoch, opened_at) values (:name, 1, :now)
on conflict (name) do update set epoch = log_producer.epoch + 1, opened_at = excluded.opened_at
returning epoch;

-- name: is_current_producer
-- No row: a newer one has taken over.
select 1 from log_producer where name = :name and epoch = :epoch;
