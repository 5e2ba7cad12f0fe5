-- name: each_id
-- Not a query: an id of the list.
value::uuid;

-- name: ids
-- Not a query: the ids in the JSON array :ids.
json_array_elements_text(:ids::json);

-- name: data
-- Not a query: what is kept beside it.
:data::json;
