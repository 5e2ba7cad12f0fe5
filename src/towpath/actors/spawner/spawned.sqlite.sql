-- name: in_turn
-- Not a query: the order in which messages were sent.
seq;
