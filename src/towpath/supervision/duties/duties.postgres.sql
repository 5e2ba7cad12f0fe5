-- name: locked
-- Not a query: nobody else changes the rows until the transaction ends.
for update;
