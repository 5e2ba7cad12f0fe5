-- name: my_stage
-- Not a query: the stage, if this process runs it; locked, so that nobody takes it before this has committed.
select 1 from flow_stage as s where s.flow = :flow and s.stage = :stage and s.owner = :owner for no key update;

-- name: stage_locked
-- Not a query: nobody takes the stage before this has committed.
for no key update of s;
