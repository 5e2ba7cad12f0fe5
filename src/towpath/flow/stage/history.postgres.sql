-- name: counted
-- What the last committed batches of a stage have counted, by stretch of time. They are at most :limit.
select committed_at / :width_us, count(*), sum(coalesce((counts::json ->> 'read')::bigint, 0))::bigint, min(committed_at)
from (select committed_at, counts from flow_batch
      where flow = :flow and stage = :stage and state = 'committed'
      order by generation desc, batch_id desc limit :limit) as batch
where committed_at >= :since_us group by 1 order by 1;

-- name: failed
-- The same of records that failed, by code.
select committed_at / :width_us, code.key, sum(code.value::bigint)::bigint
from (select committed_at, counts from flow_batch
      where flow = :flow and stage = :stage and state = 'committed'
      order by generation desc, batch_id desc limit :limit) as batch,
     json_each_text(coalesce(batch.counts::json -> 'failed', '{}'::json)) as code
where committed_at >= :since_us group by 1, 2 order by 1, 2;
