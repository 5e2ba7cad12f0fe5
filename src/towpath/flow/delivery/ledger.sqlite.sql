-- name: my_stage
-- Not a query: the stage, if this process runs it.
select 1 from flow_stage as s where s.flow = :flow and s.stage = :stage and s.owner = :owner;

-- name: stage_locked
-- Not a query: the one writer has locked everything.
;
