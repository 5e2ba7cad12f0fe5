-- name: hold_stage
-- Nobody does anyway: there is one writer at a time.
select 1 from flow_stage where flow = :flow and stage = :stage;
