-- name: among_groups
-- Not a query: is one of the numbers in the JSON array :groups.
in (select value from json_each(:groups));

-- name: among_states
-- Not a query: is one of the texts in the JSON array :states.
in (select value from json_each(:states));

-- name: tally_rows
-- Not a query: what :rows holds, as rows with nothing in them.
select value ->> 0, value ->> 1, 0 from json_each(:rows) where true;

-- name: locked
-- Not a query: nothing, since there is one writer at a time.
;

-- name: add_to_tallies
-- Groups have more cases in a state, or fewer; of each row: group, state, how many more.
update desk_tally set cases = cases + (each.value ->> 2) from json_each(:rows) as each
where desk_tally.group_id = each.value ->> 0 and desk_tally.state = each.value ->> 1;
