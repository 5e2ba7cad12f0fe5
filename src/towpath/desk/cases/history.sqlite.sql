-- name: each_id
-- Not a query: an id of the list.
value;

-- name: ids
-- Not a query: the ids in the JSON array :ids.
json_each(:ids);

-- name: data
-- Not a query: what is kept beside it.
:data;
