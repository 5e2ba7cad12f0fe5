-- name: among_keys
-- Not a query: is one of the texts in the JSON array :keys.
= any (array (select json_array_elements_text(:keys::json)));

-- name: among_ids
-- Not a query: is one of the ids in the JSON array :ids.
= any (array (select json_array_elements_text(:ids::json)::uuid));
