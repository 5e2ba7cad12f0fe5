-- name: all_messages
-- The whole message table, in the order of `Message`.
select seq, id, related_id, audit_id, inbox, reply_to, function, payload, headers, state, owner, owner_tick, attempts, give_backs,
       deliver_after, ttl_s, expires_at, reason, created_at, updated_at
from message order by seq;

-- name: all_events
-- The whole event table.
select kind, subject, who, why, data from event order by seq;

-- name: all_processes
-- The whole process table.
select id, name, pid, state, is_settled from process order by started_at, id;
