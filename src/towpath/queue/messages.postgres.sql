-- name: in_turn
-- Not a query: the order in which messages were sent, written so that only `message_live` can give it.
seq + 0;

-- name: among_seqs
-- Not a query: is one of the numbers in the JSON array :seqs.
-- An array, since the planner makes a join of `in`; without statistics that reads the JSON again for every row.
= any (array (select json_array_elements_text(:seqs::json)::bigint));

-- name: among_ids
-- Not a query: is one of the ids in the JSON array :ids.
= any (array (select json_array_elements_text(:ids::json)::uuid));

-- name: past_locks
-- Not a query: without what a transaction has locked that may stand still for long; a later round comes to it.
for update of message skip locked;

-- name: claim_one
-- Give the oldest waiting message that is not delayed to one process: much cheaper than looking at the delayed, too.
update message set state = 'ACK', owner = :owner, owner_tick = :tick, attempts = attempts + 1, expires_at = null,
                   updated_at = :now
where seq = (
    select seq from message
    where inbox = :inbox and state = 'NEW' and deliver_after is null and (expires_at is null or expires_at > :now)
    order by $in_turn limit 1 for update skip locked)
returning $columns;

-- name: claim_messages
-- Give up to :limit waiting messages of one inbox to one process, the oldest first.
with ready as materialized (
    select seq from message
    where inbox = :inbox and state = 'NEW' and deliver_after is null and (expires_at is null or expires_at > :now)
    order by seq + 0 limit :limit for update skip locked),
due as materialized (
    select seq from message
    where inbox = :inbox and state = 'NEW' and deliver_after is not null and deliver_after <= :now
      and (expires_at is null or expires_at > :now)
    order by deliver_after limit :limit for update skip locked),
picked as (
    select seq from ready union all select seq from due order by seq limit :limit)
update message set state = 'ACK', owner = :owner, owner_tick = :tick, attempts = attempts + 1, deliver_after = null,
                   expires_at = null, updated_at = :now
where seq = any (array (select seq from picked))
returning $columns;

-- name: take_answer
-- The reader of an answer has it. Not synced: after a crash of the server it would be read again, no more.
with relaxed as materialized (select set_config('synchronous_commit', 'off', true))
update message set state = 'OK', owner = :owner, owner_tick = 0, attempts = attempts + 1, reason = 'read',
                   deliver_after = null, updated_at = :now
from relaxed
where id = :id and state = 'NEW';

-- name: owners_with_claims
-- Everybody who holds a claim. What actors hold is not freed in this way.
-- The planner cannot know how few inboxes are no actor's. So they are asked for in the order of `inbox_plain`, and one
-- by one: it would read all claims that there are, to join them.
select distinct held.owner
from (select name from inbox where substr(name, 1, 6) <> 'actor:' order by name offset 0) as plain
cross join lateral (
    select owner from message
    where message.inbox = plain.name and message.state = 'ACK' and message.deliver_after is null offset 0) as held;

-- name: claims_of_owner
-- What a dead process held, with what its inboxes say about that.
select held.seq, held.id, held.inbox, held.reply_to, held.attempts - held.give_backs, inbox.on_owner_death,
       inbox.max_attempts
from (select name from inbox where substr(name, 1, 6) <> 'actor:' order by name offset 0) as plain
cross join lateral (
    select seq, id, inbox, reply_to, attempts, give_backs from message
    where message.inbox = plain.name and message.state = 'ACK' and message.deliver_after is null
      and message.owner = :owner
    limit :limit $past_locks) as held
join inbox on inbox.name = held.inbox
limit :limit;
