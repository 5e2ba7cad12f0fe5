-- name: audited_batches
-- Every batch of a stage in its order, without what the audit does not look at.
select generation, batch_id, hash, positions, state, counts, digests, units
from flow_batch where flow = :flow and stage = :stage order by generation, batch_id;

-- name: audited_stages
-- The stages of a flow with what their batches add up to.
select stage, generation, topics, starting, totals from flow_stage where flow = :flow order by stage;

-- name: flow_names
-- The flows that have run here.
select distinct flow from flow_stage order by flow;

-- name: count_batches
-- How many batches a flow has, counted no further than that.
select count(*) from (select 1 from flow_batch where flow = :flow limit :most) as counted;
