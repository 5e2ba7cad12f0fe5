-- name: among_ids
-- Not a query: is one of the ids in the JSON array :ids.
= any (array (select json_array_elements_text(:ids::json)::uuid));

-- name: among_names
-- Not a query: is one of the texts in the JSON array :names.
= any (array (select json_array_elements_text(:names::json)));

-- name: locked
-- Not a query: without what another has locked; a later round comes to it.
for update skip locked;
