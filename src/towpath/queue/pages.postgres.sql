-- name: read_in_order
-- For what follows, nothing is read whole and sorted.
-- The planner takes a filter that may be empty for one that lets hardly anything through.
set local enable_sort = off;

-- name: read_as_usual
-- That is over.
set local enable_sort = on;

-- name: page_of_claimed
-- Among what is being worked on in all inboxes: never more than there are hands.
-- The inboxes are asked one by one, since the planner would rather read all messages to join them.
select $columns from message where seq = any (array (
    select held.seq
    from (select name from inbox order by name offset 0) as each
    cross join lateral (
        select message.seq from message
        where message.inbox = each.name and message.state = 'ACK' and message.deliver_after is null offset 0) as held))
  and seq + 0 < :before and seq + 0 >= :floor and $chosen
order by seq + 0 desc limit :limit;
