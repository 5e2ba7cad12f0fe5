-- name: counted
-- What the last committed batches of a stage have counted, by stretch of time. They are at most :limit.
select committed_at / :width_us, count(*), sum(coalesce(counts ->> 'read', 0)), min(committed_at)
from (select committed_at, counts from flow_batch
      where flow = :flow and stage = :stage and state = 'committed'
      order by generation desc, batch_id desc limit :limit)
where committed_at >= :since_us group by 1 order by 1;

-- name: failed
-- The same of records that failed, by code.
select committed_at / :width_us, code.key, sum(code.value)
from (select committed_at, counts from flow_batch
      where flow = :flow and stage = :stage and state = 'committed'
      order by generation desc, batch_id desc limit :limit) as batch, json_each(coalesce(batch.counts -> 'failed', '{}')) as code
where committed_at >= :since_us group by 1, 2 order by 1, 2;
