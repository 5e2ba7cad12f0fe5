-- name: arrived
-- Not a query: what has come for some actors and nobody has looked at, in turn.
from message
where state = 'NEW' and deliver_after is null and substr(inbox, 1, 6) = 'actor:' and $actor_of_inbox $among_actors
order by $in_turn limit :limit;

-- name: has_arrivals
-- Whether something has come for some actors.
select 1 $arrived;

-- name: arrivals
-- What has come for some actors and nobody has looked at, in turn.
select $columns $arrived $past_locks;

-- name: read_held
-- Some messages by their ids.
select $columns from message where id $among_ids;

-- name: claim_held
-- Waiting messages go to one process, also delayed ones: who holds them knows when they are due.
update message set state = 'ACK', owner = :owner, owner_tick = :tick, attempts = attempts + 1, deliver_after = null,
                   expires_at = null, updated_at = :now
where id $among_ids and state = 'NEW'
returning $columns;

-- name: hold_starts
-- Messages that have started something are held by it.
update message set state = 'ACK', owner = inbox, owner_tick = 0, attempts = attempts + 1, expires_at = null,
                   updated_at = :now
where id $among_ids and state = 'NEW';

-- name: finish_held
-- Messages that one owner has are done.
update message set state = 'OK', reason = null, updated_at = :now
where id $among_ids and state = 'ACK' and owner = :owner
returning id;

-- name: take_arrived
-- Answers that were noted are read.
update message set state = 'OK', owner = :owner, owner_tick = 0, attempts = attempts + 1, reason = 'read',
                   expires_at = null, updated_at = :now
where id $among_ids and state = 'NEW';

-- name: forget_held
-- A message that says nothing which the one behind it does not say.
delete from message where id = :id and function = :function and state = 'OK' and substr(inbox, 1, 6) = 'actor:';

-- name: wait_again
-- A message that somebody had, or that waits, is due at another time.
update message set state = 'NEW', owner = null, owner_tick = null, deliver_after = :due_us, updated_at = :now
where id $among_ids and state in ('NEW', 'ACK')
returning id;
