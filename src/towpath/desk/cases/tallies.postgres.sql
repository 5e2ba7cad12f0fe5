-- name: among_groups
-- Not a query: is one of the numbers in the JSON array :groups.
= any (array (select json_array_elements_text(:groups::json)::bigint));

-- name: among_states
-- Not a query: is one of the texts in the JSON array :states.
= any (array (select json_array_elements_text(:states::json)));

-- name: tally_rows
-- Not a query: what :rows holds, as rows with nothing in them.
select (value ->> 0)::bigint, value ->> 1, 0 from json_array_elements(:rows::json);

-- name: locked
-- Not a query: nobody else may change these rows until the transaction ends.
for update;

-- name: add_to_tallies
-- Groups have more cases in a state, or fewer; of each row: group, state, how many more.
update desk_tally set cases = cases + (each.value ->> 2)::bigint from json_array_elements(:rows::json) as each (value)
where desk_tally.group_id = (each.value ->> 0)::bigint and desk_tally.state = each.value ->> 1;
