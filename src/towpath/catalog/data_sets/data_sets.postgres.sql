-- name: locked
-- Not a query: nobody else may change these rows until the transaction ends.
for update;
