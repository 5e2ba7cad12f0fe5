-- name: among_ids
-- Not a query: is one of the ids in the JSON array :ids.
in (select value from json_each(:ids));
