-- name: columns
-- Not a query: the columns of a message, in the order of `Message`.
seq, id, related_id, audit_id, inbox, reply_to, function, payload, headers, state, owner, owner_tick, attempts, give_backs,
deliver_after, ttl_s, expires_at, reason, created_at, updated_at;

-- name: insert_message
-- Send one message. No row: a message with that id is there already.
insert into message (id, related_id, audit_id, inbox, reply_to, function, payload, headers, deliver_after, ttl_s,
                     expires_at, created_at, updated_at)
values (:id, :related_id, :audit_id, :inbox, :reply_to, :function, :payload, :headers, :now + :delay_us, :ttl_s,
        :now + :expiry_us, :now, :now)
on conflict (id) do nothing;

-- name: insert_plain
-- Send one message that asks for no answer, no delay and nothing else. No row: its id is there already.
insert into message (id, inbox, function, payload, created_at, updated_at)
values (:id, :inbox, :function, :payload, :now, :now)
on conflict (id) do nothing;

-- name: read_message
-- One message by its id.
select $columns from message where id = :id;

-- name: claimed_by_tick
-- What one claim of one process holds; asked when the answer to the claim itself was lost.
select $columns from message 
where inbox = :inbox and state = 'ACK' and deliver_after is null and owner = :owner and owner_tick = :tick;

-- name: owners_with_claims
-- Everybody who holds a claim. What actors hold is not freed in this way.
select distinct message.owner from inbox cross join message
where substr(inbox.name, 1, 6) <> 'actor:' and message.inbox = inbox.name and message.state = 'ACK' and message.deliver_after is null;

-- name: claims_of_owner
-- What a dead process held, with what its inboxes say about that.
select message.seq, message.id, message.inbox, message.reply_to, message.attempts - message.give_backs,
       inbox.on_owner_death, inbox.max_attempts
from inbox cross join message
where substr(inbox.name, 1, 6) <> 'actor:' and message.inbox = inbox.name and message.state = 'ACK'
  and message.deliver_after is null and message.owner = :owner
limit :limit $past_locks;

-- name: expire_messages
-- Messages that nobody took in time are dead.
update message set state = 'DEAD', reason = 'ttl ran out before anyone claimed it', updated_at = :now
where state = 'NEW' and seq in (
    select seq from message where state = 'NEW' and expires_at is not null and expires_at <= :now
    order by expires_at limit :limit)
returning id, inbox, reply_to;

-- name: next_span
-- The end of the next stretch of messages, and when the first of them was sent.
select max(seq), min(created_at)
from (select seq, created_at from message where seq > :after order by seq limit :limit) as span;

-- name: delete_in_span
-- Delete, within one stretch, what ended before its time; never the newest message, or its number would come again.
-- Nor what an actor is going to read when all has come that it waits for: its question, and the answer to that.
delete from message
where seq > :after and seq <= :upto and seq < (select max(seq) from message)
  and ((state = 'OK' and updated_at < :ok_before) or (state = 'ERR' and updated_at < :err_before)
       or (state = 'DEAD' and updated_at < :dead_before))
  and not exists (select 1 from actor_wait where actor_wait.question_id = message.id)
  and not exists (select 1 from actor_wait where actor_wait.question_id = message.related_id)
returning state;

-- name: kill_message
-- Take a message out of the way, by a person or by its sender.
update message set state = 'DEAD', reason = :reason, updated_at = :now
where id = :id and state in ('NEW', 'ACK')
returning reply_to;

-- name: fail_message
-- Declare a claimed message failed, whoever has it.
update message set state = 'ERR', reason = :reason, updated_at = :now
where id = :id and state = 'ACK'
returning reply_to;

-- name: finish_message
-- Declare a claimed message done, whoever has it.
update message set state = 'OK', reason = :reason, updated_at = :now
where id = :id and state = 'ACK'
returning reply_to;

-- name: requeue_message
-- Send a message on its way again, as if it were new.
update message set state = 'NEW', owner = null, owner_tick = null, attempts = 0, give_backs = 0, deliver_after = null,
                   reason = :reason, expires_at = cast(:now + ttl_s * 1000000 as bigint), updated_at = :now
where id = :id and state in ('ACK', 'OK', 'ERR', 'DEAD')
returning inbox;

-- name: take_message
-- Claim one message by its id, whoever has it: for a person's answer and for the reader of an answer.
update message set state = 'ACK', owner = :owner, owner_tick = 0, attempts = attempts + 1, deliver_after = null,
                   expires_at = null, updated_at = :now
where id = :id and state in ('NEW', 'ACK')
returning id;

-- name: edit_message
-- Change what a waiting message says.
update message set payload = :payload, headers = :headers, updated_at = :now
where id = :id and state = 'NEW' and updated_at = :seen_at
returning id;

-- name: read_answer
-- The state of a request and, if there is one, its newest answer.
select request.state, request.reason, request.reply_to is not null, answer.id, answer.payload, answer.state
from message as request
left join message as answer on answer.related_id = request.id and answer.inbox = request.reply_to
where request.id = :id
order by answer.seq desc limit 1;

-- name: next_due
-- When the next delayed message of an inbox is due.
select min(deliver_after) from message where inbox = :inbox and state = 'NEW' and deliver_after is not null;

-- name: newest_handled
-- The last messages of an inbox that were handled well.
select $columns from message where inbox = :inbox and state = 'OK' order by seq desc limit :limit;

-- name: finish_claims
-- Claims of one process are done; by one tick of it.
update message set state = 'OK', reason = null, updated_at = :now
where state = 'ACK' and owner = :owner and owner_tick = :tick and seq $among_seqs
returning seq;

-- name: finish_claim
-- One claim of one process is done.
update message set state = 'OK', reason = null, updated_at = :now
where state = 'ACK' and owner = :owner and owner_tick = :tick and seq = :seq;

-- name: fail_claims
-- Claims of one process have failed; by one tick of it, or all.
update message set state = 'ERR', reason = :reason, updated_at = :now
where state = 'ACK' and owner = :owner and owner_tick = coalesce(:tick, owner_tick) and seq $among_seqs
returning seq;

-- name: give_up_claims
-- Claims of a dead process are given up.
update message set state = 'DEAD', reason = :reason, updated_at = :now
where state = 'ACK' and owner = :owner and seq $among_seqs
returning seq;

-- name: free_claims
-- Claims of a dead process wait again.
update message set state = 'NEW', owner = null, owner_tick = null, reason = :reason, updated_at = :now
where state = 'ACK' and owner = :owner and seq $among_seqs
returning seq;

-- name: release_claims
-- Claims of one process and tick are given back unworked.
update message set state = 'NEW', owner = null, owner_tick = null, give_backs = give_backs + 1,
                   deliver_after = :now + :delay_us, updated_at = :now
where state = 'ACK' and owner = :owner and owner_tick = :tick and seq $among_seqs
returning seq;

-- name: ended_by_tick
-- Which of these claims this very tick has brought to an end; asked when the answer to that was lost.
select seq from message
where state = :state and owner = :owner and owner_tick = :tick and seq $among_seqs;

-- name: eavesdrop
-- What waits in an inbox or is being worked on, without touching it.
select $columns from message where seq in (
    select seq from (select seq from message where inbox = :inbox and state = 'NEW' and deliver_after is null
                     order by $in_turn limit :limit) as ready
    union all
    select seq from (select seq from message where inbox = :inbox and state = 'NEW' and deliver_after is not null
                     order by deliver_after limit :limit) as due
    union all
    select seq from (select seq from message where inbox = :inbox and state = 'ACK' and deliver_after is null
                     order by $in_turn limit :limit) as claimed)
order by seq limit :limit;

-- name: relatives
-- Messages that these ids name, or that name one of these ids.
select $columns from message where seq in (
    select seq from message where id $among_ids
    union select seq from message where related_id $among_ids
    union select seq from message where audit_id $among_ids)
order by seq limit :limit;

-- name: messages_after
-- What was sent since a given message, oldest first.
select $columns from message where seq > :after and inbox = coalesce(:inbox, inbox) order by seq limit :limit;

-- name: last_message
-- Where to start following.
select coalesce(max(seq), 0) from message;
