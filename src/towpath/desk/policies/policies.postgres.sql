-- name: rules
-- Not a query: a list of names of rules.
select json_array_elements_text(:rules::json);
