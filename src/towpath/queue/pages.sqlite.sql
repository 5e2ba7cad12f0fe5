-- name: read_in_order
-- Nothing, since there is no other way to read it.
select 1;

-- name: read_as_usual
-- That is over.
select 1;

-- name: page_of_claimed
-- Among what is being worked on in all inboxes: never more than there are hands.
select $columns from message where seq in (
    select message.seq from inbox cross join message
    where message.inbox = inbox.name and message.state = 'ACK' and message.deliver_after is null)
  and seq + 0 < :before and seq + 0 >= :floor and $chosen
order by seq desc limit :limit;
