-- name: streams
-- Not a query: a list of streams.
select value from json_each(:streams);
