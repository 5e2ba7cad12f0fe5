-- name: among_inboxes
-- Not a query: is one of the texts in the JSON array :inboxes.
in (select value from json_each(:inboxes));

-- name: among_actors
-- Not a query: is one of the texts in the JSON array :actors.
in (select value from json_each(:actors));

-- name: among_questions
-- Not a query: is one of the ids in the JSON array :questions.
in (select value from json_each(:questions));

-- name: locked
-- Not a query: nothing, since there is one writer at a time.
;

-- name: past_locks
-- Not a query: nothing, since there are no locks on rows here.
;

-- name: move_instances
-- Instances go on; of each row: inbox, the head that it must have, and all that is set.
update actor_instance set phase = each.value ->> 2, step = each.value ->> 3, head_id = each.value ->> 4,
    last_id = each.value ->> 5, run_id = each.value ->> 6, owner = each.value ->> 7, due_at = each.value ->> 8,
    needs = each.value ->> 9, reason = each.value ->> 10, abort = null, parent = each.value ->> 11,
    is_tied = each.value ->> 12, restarts = each.value ->> 13, moved_at = :now
from json_each(:rows) as each
where actor_instance.inbox = each.value ->> 0 and actor_instance.head_id is each.value ->> 1
returning actor_instance.inbox;

-- name: go_on_instances
-- Running instances go on with their next state; of each row: inbox, the head that it must have, state, new head.
update actor_instance set step = each.value ->> 2, last_id = head_id, head_id = each.value ->> 3, moved_at = :now
from json_each(:rows) as each
where actor_instance.inbox = each.value ->> 0 and actor_instance.head_id = each.value ->> 1;
