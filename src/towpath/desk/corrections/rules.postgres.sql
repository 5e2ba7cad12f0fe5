-- name: among_states
-- Not a query: is one of the texts in the JSON array :states.
= any (array (select json_array_elements_text(:states::json)));
