-- name: among_ids
-- Not a query: is one of the ids in the JSON array :ids.
= any (array (select json_array_elements_text(:ids::json)::uuid));
