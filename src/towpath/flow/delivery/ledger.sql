-- name: columns
-- Not a query: the columns of a batch, in the order of `Batch`.
flow, stage, generation, batch_id, hash, positions, units, state, attempts, counts, digests, timings, started_at,
decided_at, committed_at;

-- name: this
-- Not a query: one batch.
flow = :flow and stage = :stage and generation = :generation and batch_id = :batch_id;

-- name: snapshot
-- Fix the positions of a batch, or begin another attempt at it. No row: another hash, another batch open, not ours.
insert into flow_batch (flow, stage, generation, batch_id, hash, positions, units, state, started_at)
select s.flow, s.stage, s.generation, :batch_id, :hash, :positions, :units, 'snapshot', :now
from flow_stage as s
where s.flow = :flow and s.stage = :stage and s.generation = :generation and s.owner = :owner
  and not exists (select 1 from flow_batch as b
                  where b.flow = :flow and b.stage = :stage and b.state in ('snapshot', 'decided', 'ahead')
                    and (b.generation, b.batch_id) <> (:generation, :batch_id))
$stage_locked
on conflict (flow, stage, generation, batch_id) do update set attempts = flow_batch.attempts + 1
where flow_batch.hash = excluded.hash and flow_batch.state <> 'superseded'
returning $columns;

-- name: decide
-- What becomes of each record is fixed now.
update flow_batch set state = 'decided', decided_at = :now, counts = :counts, timings = :timings
where $this and state = 'snapshot' and exists ($my_stage)
returning $columns;

-- name: go_ahead
-- At most once: from here on nothing of the batch is tried a second time.
update flow_batch set state = 'ahead' where $this and state = 'snapshot' and exists ($my_stage)
returning $columns;

-- name: commit
-- Every output has what it is to have.
update flow_batch set state = 'committed', committed_at = :now, counts = :counts, digests = :digests, timings = :timings,
    units = coalesce(:units, units)
where $this and state in ('snapshot', 'decided', 'ahead') and exists ($my_stage)
returning $columns;

-- name: supersede_open
-- A reset: what is not committed by now will never be.
update flow_batch set state = 'superseded'
where flow = :flow and stage = :stage and state in ('snapshot', 'decided', 'ahead') and exists ($my_stage)
returning $columns;

-- name: read_totals
-- What all committed batches of a flow counted, by stage.
select stage, totals from flow_stage where flow = :flow order by stage;

-- name: save_totals
-- Called by the commit of a batch, in its transaction, with that batch added.
update flow_stage set totals = :totals where flow = :flow and stage = :stage;

-- name: read_batch
-- One batch.
select $columns from flow_batch where $this;

-- name: open_batch
-- The batch that a stage is at work on.
select $columns from flow_batch where flow = :flow and stage = :stage and state in ('snapshot', 'decided', 'ahead');

-- name: last_committed
-- The newest batch of a generation that is done.
select $columns from flow_batch
where flow = :flow and stage = :stage and generation = :generation and state = 'committed'
order by batch_id desc limit 1;

-- name: list_batches
-- One page of batches, newest first.
select $columns from flow_batch
where flow = :flow and stage = :stage
  and (generation, batch_id) < (coalesce(:generation, 2147483647), coalesce(:batch_id, 9223372036854775807))
order by generation desc, batch_id desc limit :limit;

-- name: generations
-- The generations of a stage with their first and their last batch, the newest first.
select generation, min(batch_id), max(batch_id) from flow_batch where flow = :flow and stage = :stage
group by generation order by generation desc;

-- name: batch_from
-- The first batch of a generation from a number on.
select $columns from flow_batch
where flow = :flow and stage = :stage and generation = :generation and batch_id >= :batch_id
order by batch_id limit 1;

-- name: owner_of_stage
-- Who runs a stage, and in which generation.
select owner, generation from flow_stage where flow = :flow and stage = :stage;

-- name: add_gap
-- Offsets that will never be read. No row: that is known already. A gap that has grown meanwhile stays one.
insert into flow_gap (flow, stage, generation, topic, topic_id, partition, start_offset, stop_offset, reason, batch_id,
                      noticed_at)
values (:flow, :stage, :generation, :topic, :topic_id, :partition, :start, :stop, :reason, :batch_id, :now)
on conflict (flow, stage, generation, topic_id, partition, start_offset) do update set stop_offset = excluded.stop_offset
where excluded.stop_offset > flow_gap.stop_offset;

-- name: list_gaps
-- What the stages of a flow will never read, oldest first.
select flow, stage, generation, topic, topic_id, partition, start_offset, stop_offset, reason, batch_id, noticed_at
from flow_gap where flow = :flow and stage = coalesce(:stage, stage)
order by noticed_at, stage, generation, topic, partition, start_offset;
