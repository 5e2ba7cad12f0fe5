-- name: states
-- How many cases there are in each state.
select state, sum(cases) from desk_tally group by state order by state;

-- name: to_send
-- How many rows the outbox has.
select count(*) from desk_outbox;

-- name: next_due
-- When the first of what waits in lanes is due.
select min((select min(c.due_at) from desk_case as c
            where c.flow = l.flow and c.lane = l.partition and c.state = 'waiting'))
from desk_lane as l;

-- name: jobs_at_work
-- How many bulk jobs are at work.
select count(*) from desk_job where state in ('filling', 'running');
