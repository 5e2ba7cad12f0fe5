-- name: hold_stage
-- Nobody fixes a batch of the stage until this transaction ends.
select 1 from flow_stage where flow = :flow and stage = :stage for no key update;
