-- name: streams
-- Not a query: a list of streams.
select json_array_elements_text(:streams::json);
