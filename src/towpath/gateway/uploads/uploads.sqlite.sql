-- name: locked
-- Not a query: nothing, since there is one writer at a time.
;
