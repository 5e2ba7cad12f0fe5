-- name: in_turn
-- Not a query: the order in which messages were sent, written so that only `message_live` can give it.
seq + 0;
