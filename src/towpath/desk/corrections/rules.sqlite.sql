-- name: among_states
-- Not a query: is one of the texts in the JSON array :states.
in (select value from json_each(:states));
