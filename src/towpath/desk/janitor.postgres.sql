-- name: among_numbers
-- Not a query: is one of the numbers in the JSON array :ids.
= any (array (select json_array_elements_text(:ids::json)::bigint));

-- name: among_names
-- Not a query: is one of the texts in the JSON array :names.
= any (array (select json_array_elements_text(:names::json)));

-- name: locked
-- Not a query: an intake has them locked while it puts cases into them.
for update;
