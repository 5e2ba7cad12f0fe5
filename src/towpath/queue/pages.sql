-- Messages are read from the newest to the oldest, from below :before down to :floor.

-- name: chosen
-- Not a query: what is asked of a message that no index knows.
inbox = coalesce(:inbox, inbox) and state = coalesce(:state, state) and function = coalesce(:function, function)
and (cast(:owner as text) is null or owner = :owner)
and created_at >= coalesce(:since, created_at) and created_at < coalesce(:until, created_at + 1);

-- name: are_failed
-- Not a query: in one of the states that somebody should look at; as the indexes say it.
state = :state and (state = 'ERR' or state = 'DEAD');

-- name: in_order
-- Not a query: what is chosen of these, in the order that an index gives.
$in_turn < :before and $in_turn >= :floor and $chosen order by $in_turn desc limit :limit;

-- name: page_as_it_comes
-- All messages, without a filter that a planner could misjudge.
select $columns from message where seq < :before and seq >= :floor order by seq desc limit :limit;

-- name: page_of_all
-- Among all messages.
select $columns from message where seq < :before and seq >= :floor and $chosen order by seq desc limit :limit;

-- name: page_of_failed
-- Among the failed or the dead of all inboxes.
select $columns from message where $are_failed and $in_order;

-- name: page_of_failed_in
-- Among the failed or the dead of one inbox.
select $columns from message where inbox = :inbox and $are_failed and $in_order;

-- name: page_of_own_in
-- Among all of an inbox that is Towpath's own; as the index says it.
select $columns from message
where inbox = :inbox
  and (substr(inbox, 1, 6) = 'actor:' or substr(inbox, 1, 7) = 'notify:' or inbox = 'desk-rehearsals')
  and $in_order;

-- name: page_of_live_in
-- Among what waits in an inbox without delay, or is being worked on.
select $columns from message
where inbox = :inbox and state = :state and deliver_after is null and (state = 'NEW' or state = 'ACK') and $in_order;

-- name: page_of_due_in
-- Among what waits in an inbox for its time. It has to be sorted: the index has it by that time.
select $columns from message
where inbox = :inbox and state = 'NEW' and deliver_after is not null and seq + 0 < :before and seq + 0 >= :floor
  and $chosen
order by seq + 0 desc limit :limit;

-- name: newest_below
-- The newest message below a number.
select max(seq) from message where seq < :below;

-- name: first_from
-- The next message at a number or behind it, and when it was sent.
select seq, created_at from message where seq >= :seq order by seq limit 1;
