-- name: first_due
-- When the first case of each lane that is not paused is due.
select desk_lane.flow, desk_lane.partition,
       (select min(desk_case.due_at) from desk_case
        where desk_case.flow = desk_lane.flow and desk_case.lane = desk_lane.partition
          and desk_case.state = 'waiting') as first_due
from desk_lane where desk_lane.is_paused = 0
order by desk_lane.flow, desk_lane.partition;

-- name: flows
-- Flows that have had errors.
select distinct flow from desk_group order by flow;

-- name: taken_before_last
-- When the case was taken in that is so many before the newest of those that are open in a flow.
select taken_at from desk_case where flow = :flow and state = 'open' order by seq desc limit 1 offset :skip;

-- name: cases_by_state
-- How many cases a flow has in each state, by the tallies of its groups.
select desk_group.flow, desk_tally.state, sum(desk_tally.cases)
from desk_tally join desk_group on desk_group.id = desk_tally.group_id
group by desk_group.flow, desk_tally.state
order by desk_group.flow, desk_tally.state;
