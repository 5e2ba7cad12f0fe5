-- name: read_dues
-- When the shards of a stage are due, in one generation.
select operator, shard, due from flow_due where flow = :flow and stage = :stage and generation = :generation;

-- name: forget_dues
-- Those of earlier generations: their state is gone.
delete from flow_due where flow = :flow and stage = :stage and generation < :generation;
