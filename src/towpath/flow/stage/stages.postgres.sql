-- name: allowed
-- Not a query: a list of states.
select json_array_elements_text(:states::json);
