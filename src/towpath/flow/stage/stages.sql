-- name: columns
-- Not a query: the columns of a stage, in the order of `StageRow`.
flow, stage, generation, topology, version, checkpoint, topics, starting, owner, launch, pilot, judge, sample, wish, wish_who,
wish_why, wish_at, wish_args, created_at, updated_at;

-- name: wish_columns
-- Not a query: the columns of a wish, in the order of `StageCommand`.
wish, wish_who, wish_why, wish_at, wish_args;

-- name: mine
-- Not a query: the row of a stage, if this process runs it.
flow = :flow and stage = :stage and owner = :owner;

-- name: insert_stage
-- Make the row of a stage. No row: it is there already.
insert into flow_stage (flow, stage, topology, version, state, pilot, created_at, updated_at)
values (:flow, :stage, :topology, :version, :state, :pilot, :now, :now)
on conflict (flow, stage) do nothing;

-- name: read_stage
-- One stage.
select $columns from flow_stage where flow = :flow and stage = :stage;

-- name: list_stages
-- All stages of one flow, or of all.
select $columns from flow_stage where flow = coalesce(:flow, flow) order by flow, stage;

-- name: list_names
-- Every stage by its name.
select flow, stage from flow_stage order by flow, stage;

-- name: take_stage
-- A process begins to run a stage. No row: another one runs it that was not found dead.
update flow_stage set owner = :owner, launch = launch + 1, updated_at = :now
where flow = :flow and stage = :stage and (owner is null or owner = :owner or owner = :dead)
returning $columns;

-- name: release_stage
-- A process has ended its work on a stage, which is at rest now.
update flow_stage set owner = null, state = :state, pilot = :pilot, updated_at = :now where $mine;

-- name: save_machine
-- Where the stage is now.
update flow_stage set state = :state, pilot = :pilot, updated_at = :now where $mine;

-- name: save_sample
-- Positions, lag and rate as they are now.
update flow_stage set sample = :sample, updated_at = :now where $mine;

-- name: save_judge
-- The counters that tell poison from outage.
update flow_stage set judge = :judge, updated_at = :now where $mine;

-- name: save_topology
-- The graph with which the stage runs now.
update flow_stage set topology = :topology, version = :version, updated_at = :now where $mine;

-- name: begin_generation
-- A new checkpoint with its starting positions. No row: it is not ours, not the next one, or a batch is open.
update flow_stage
set generation = :generation, checkpoint = :checkpoint, starting = :starting, topics = :topics, updated_at = :now
where $mine and generation = :generation - 1
  and not exists (select 1 from flow_batch as b
                  where b.flow = :flow and b.stage = :stage and b.state in ('snapshot', 'decided', 'ahead'))
returning $columns;

-- name: ask
-- Somebody wants the stage to do something. No row: not in its present state.
update flow_stage
set wish = :wish, wish_who = :who, wish_why = :why, wish_at = :now, wish_args = :args, updated_at = :now
where flow = :flow and stage = :stage and state in ($allowed)
returning $columns;

-- name: read_wish
-- What is wanted of the stage that this process runs.
select $wish_columns from flow_stage where $mine and wish is not null;

-- name: settle_wish
-- What was wanted is done, by what else is written in this transaction. No row: something else is wanted by now.
update flow_stage set wish = null, wish_who = null, wish_why = null, wish_at = null, wish_args = null, updated_at = :now
where $mine and wish = :wish and wish_at = :at
returning flow;
