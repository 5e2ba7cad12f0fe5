-- name: rules
-- Not a query: a list of names of rules.
select value from json_each(:rules);
