-- name: watchers
-- Not a query: actors with the states in which they watch an inbox.
(select value ->> 0 as actor, value ->> 1 as step, value ->> 2 as inbox from json_each(:watching));
