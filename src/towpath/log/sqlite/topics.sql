-- name: insert_topic
-- A new topic. No row: the name is taken.
insert into log_topic (id, name, retention_ms, created_at) values (:id, :name, :retention_ms, :now)
on conflict (name) where deleted_at is null do nothing;

-- name: insert_partition
-- One more partition of a topic.
insert into log_partition (topic_id, number) values (:topic_id, :number);

-- name: read_topic
-- One topic that is not deleted.
select t.name, t.id, count(p.id), t.retention_ms
from log_topic as t join log_partition as p on p.topic_id = t.id
where t.name = :name and t.deleted_at is null
group by t.id;

-- name: list_topics
-- All topics that are not deleted, by name.
select t.name, t.id, count(p.id), t.retention_ms
from log_topic as t join log_partition as p on p.topic_id = t.id
where t.deleted_at is null
group by t.id
order by t.name;

-- name: partitions_of_topic
-- The partitions of a topic, in order.
select p.id, p.number, p.start_offset, p.next_offset
from log_topic as t join log_partition as p on p.topic_id = t.id
where t.name = :name and t.deleted_at is null
order by p.number;

-- name: move_end
-- Records have been added up to here.
update log_partition set next_offset = :next where id = :id;

-- name: move_start
-- Records below this offset are gone for every reader. Never backwards.
update log_partition set start_offset = :start where id = :id and start_offset < :start;

-- name: expire_before
-- The same by age: never past what a group has still to read.
update log_partition set start_offset = :start
where id = :id and start_offset < :start
  and not exists (select 1 from log_position as l
                  where l.topic_id = log_partition.topic_id and l.number = log_partition.number and l.next < :start
                    and l.group_name not like '\_\_%' escape '\');

-- name: mark_deleted
-- The topic is gone for everybody. No row: there is none of that name.
update log_topic set deleted_at = :now where name = :name and deleted_at is null returning id;

-- name: partitions_of_deleted
-- Partitions whose topic is deleted, but whose records may still be there.
select p.id, p.topic_id from log_topic as t join log_partition as p on p.topic_id = t.id where t.deleted_at is not null;

-- name: delete_partition
-- Its records are gone.
delete from log_partition where id = :id;

-- name: delete_topic
-- A deleted topic whose partitions are gone.
delete from log_topic
where id = :id and deleted_at is not null and not exists (select 1 from log_partition where topic_id = :id);

-- name: expiring_partitions
-- Partitions whose records have an end, with the lowest position that a group has in them.
select p.id, t.name, p.number, p.start_offset, p.next_offset, t.retention_ms,
       (select min(next) from log_position where topic_id = t.id and number = p.number and group_name not like '\_\_%' escape '\')
from log_topic as t join log_partition as p on p.topic_id = t.id
where t.deleted_at is null and t.retention_ms is not null;

-- name: all_partitions
-- Every partition with its start.
select id, start_offset from log_partition;
