-- name: covering
-- Where a stage began, its last batch that is committed, and all those of which nobody knows how far they came.
select starting from flow_stage where flow = :flow and stage = :stage
union all
select positions from flow_batch
where flow = :flow and stage = :stage and state in ('snapshot', 'decided', 'ahead', 'superseded')
union all
select positions from (
    select b.positions from flow_batch as b join flow_stage as s on s.flow = b.flow and s.stage = b.stage
    where b.flow = :flow and b.stage = :stage and b.generation = s.generation and b.state = 'committed'
    order by b.batch_id desc limit 1) as newest;
