-- name: columns
-- Not a query: the columns of a lane, in the order of `Lane`.
flow, partition, delay_ms, jitter_ms, is_paused, hurried_to, owner, wanted_by, position, release, beyond, made_at;

-- name: mine
-- Not a query: one lane, if this process has it.
flow = :flow and partition = :partition and owner = :owner;

-- name: lane_of_delay
-- The lane in which records of a flow wait for that long.
select $columns from desk_lane where flow = :flow and delay_ms = :delay_ms;

-- name: add_lane
-- A lane for a new delay. No row: another transaction was faster, with this one or with another.
insert into desk_lane (flow, partition, delay_ms, made_at)
select :flow, coalesce(max(partition) + 1, 0), :delay_ms, :now from desk_lane where flow = :flow
on conflict do nothing;

-- name: set_jitter
-- Over which time what is due is spread.
update desk_lane set jitter_ms = :jitter_ms where flow = :flow and partition = :partition;

-- name: read_lane
-- One lane.
select $columns from desk_lane where flow = :flow and partition = :partition;

-- name: list_lanes
-- The lanes of one flow, or of all.
select $columns from desk_lane where flow = coalesce(:flow, flow) order by flow, partition;

-- name: owners
-- Who has lanes.
select distinct owner from desk_lane where owner is not null;

-- name: claim_lane
-- A lane that nobody has becomes this process's. No row: another was faster.
update desk_lane set owner = :owner, wanted_by = null where flow = :flow and partition = :partition and owner is null
returning $columns;

-- name: free_lanes_of
-- The lanes of somebody who is gone are nobody's.
update desk_lane set owner = null, wanted_by = null where owner = :owner;

-- name: want_lane
-- Ask for a lane of another, who has more. No row: somebody else asked before.
update desk_lane set wanted_by = :wanted_by
where flow = :flow and partition = :partition and owner = :owner and wanted_by is null
returning flow;

-- name: hand_over
-- Give a lane to whoever has asked for it.
update desk_lane set owner = wanted_by, wanted_by = null where $mine and wanted_by is not null
returning flow;

-- name: plan_release
-- Write down what the next release takes. No row: this process does not have the lane, or another release was planned.
update desk_lane set release = :release, position = :position, beyond = :beyond
where $mine and release = :release - 1
returning release;

-- name: mend_plan
-- Write down where a lane is after all, by what the log says.
update desk_lane set release = :release, position = :position, beyond = :beyond where $mine
returning release;

-- name: pause_lane
-- Release nothing more, or go on. No row: it is so already.
update desk_lane set is_paused = :is_paused where flow = :flow and partition = :partition and is_paused <> :is_paused
returning $columns;

-- name: hurry_lane
-- What is in it now counts as due.
update desk_lane set hurried_to = :hurried_to where flow = :flow and partition = :partition
returning $columns;

-- name: waiting_in
-- How many cases wait in each lane of a flow, when the first of them is due, and the last.
select lane, count(*), min(due_at), max(due_at) from desk_case
where flow = :flow and state = 'waiting' group by lane;

-- name: ids_waiting_in
-- Some of the cases that wait in a lane, those first that are due first.
select id from desk_case where flow = :flow and lane = :lane and state = 'waiting' order by due_at limit :limit;
