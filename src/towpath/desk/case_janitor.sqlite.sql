-- name: among_ids
-- Not a query: is one of the ids in the JSON array :ids.
in (select value from json_each(:ids));

-- name: among_names
-- Not a query: is one of the texts in the JSON array :names.
in (select value from json_each(:names));

-- name: locked
-- Not a query: nothing, since there is one writer at a time.
;
