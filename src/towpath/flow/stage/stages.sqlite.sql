-- name: allowed
-- Not a query: a list of states.
select value from json_each(:states);
