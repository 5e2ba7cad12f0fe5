-- name: in_turn
-- Not a query: the order in which messages were sent.
seq;

-- name: among_seqs
-- Not a query: is one of the numbers in the JSON array :seqs.
in (select value from json_each(:seqs));

-- name: among_ids
-- Not a query: is one of the ids in the JSON array :ids.
in (select value from json_each(:ids));

-- name: past_locks
-- Not a query: nothing, since there are no locks on rows here.
;

-- name: claim_one
-- Give the oldest waiting message that is not delayed to one process: much cheaper than looking at the delayed, too.
update message set state = 'ACK', owner = :owner, owner_tick = :tick, attempts = attempts + 1, expires_at = null,
                   updated_at = :now
where seq = (
    select seq from message
    where inbox = :inbox and state = 'NEW' and deliver_after is null and (expires_at is null or expires_at > :now)
    order by $in_turn limit 1)
returning $columns;

-- name: claim_messages
-- Give up to :limit waiting messages of one inbox to one process, the oldest first.
update message set state = 'ACK', owner = :owner, owner_tick = :tick, attempts = attempts + 1, deliver_after = null,
                   expires_at = null, updated_at = :now
where seq in (
    select seq from (
        select seq from message
        where inbox = :inbox and state = 'NEW' and deliver_after is null and (expires_at is null or expires_at > :now)
        order by seq limit :limit)
    union all
    select seq from (
        select seq from message
        where inbox = :inbox and state = 'NEW' and deliver_after is not null and deliver_after <= :now
          and (expires_at is null or expires_at > :now)
        order by deliver_after limit :limit)
    order by seq limit :limit)
returning $columns;

-- name: take_answer
-- The reader of an answer has it: claimed and finished in one act.
update message set state = 'OK', owner = :owner, owner_tick = 0, attempts = attempts + 1, reason = 'read',
                   deliver_after = null, updated_at = :now
where id = :id and state = 'NEW';
