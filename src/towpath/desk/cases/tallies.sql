-- name: make_tallies
-- Rows for groups and states that have none yet; of each row: group, state.
insert into desk_tally (group_id, state, cases) $tally_rows
on conflict (group_id, state) do nothing;

-- name: lock_tallies
-- Those of some tallies that are there, which nobody else changes until the transaction ends.
select desk_tally.group_id, desk_tally.state from desk_tally
where desk_tally.group_id $among_groups and desk_tally.state $among_states
order by desk_tally.group_id, desk_tally.state $locked;

-- name: tallies
-- How many cases some groups have in each state.
select group_id, state, cases from desk_tally where group_id $among_groups;

-- name: count_by_tallies
-- How many cases a flow, or all, have in some states.
select coalesce(sum(desk_tally.cases), 0) from desk_tally
join desk_group on desk_group.id = desk_tally.group_id
where desk_group.flow = coalesce(:flow, desk_group.flow) and desk_tally.state $among_states;
