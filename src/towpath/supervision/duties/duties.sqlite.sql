-- name: locked
-- Not a query: a write transaction keeps all others out anyway.
;
