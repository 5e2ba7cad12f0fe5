-- name: among_inboxes
-- Not a query: is one of the texts in the JSON array :inboxes.
= any (array (select json_array_elements_text(:inboxes::json)));

-- name: among_actors
-- Not a query: is one of the texts in the JSON array :actors.
= any (array (select json_array_elements_text(:actors::json)));

-- name: among_questions
-- Not a query: is one of the ids in the JSON array :questions.
= any (array (select json_array_elements_text(:questions::json)::uuid));

-- name: locked
-- Not a query: nobody else may change these rows until the transaction ends.
for update;

-- name: past_locks
-- Not a query: without what another has locked; a later round comes to it.
for update skip locked;

-- name: move_instances
-- Instances go on; of each row: inbox, the head that it must have, and all that is set.
-- The inboxes also as an array: of a join alone the planner thinks that it has to read all instances.
update actor_instance set phase = each.value ->> 2, step = each.value ->> 3, head_id = (each.value ->> 4)::uuid,
    last_id = (each.value ->> 5)::uuid, run_id = (each.value ->> 6)::uuid, owner = each.value ->> 7,
    due_at = (each.value ->> 8)::bigint, needs = (each.value ->> 9)::integer, reason = each.value ->> 10, abort = null,
    parent = each.value ->> 11, is_tied = (each.value ->> 12)::integer,
    restarts = (each.value ->> 13)::integer, moved_at = :now
from json_array_elements(:rows::json) as each (value)
where actor_instance.inbox = any (array (select json_array_elements(:rows::json) ->> 0))
  and actor_instance.inbox = each.value ->> 0
  and actor_instance.head_id is not distinct from (each.value ->> 1)::uuid
returning actor_instance.inbox;

-- name: go_on_instances
-- Running instances go on with their next state; of each row: inbox, the head that it must have, state, new head.
update actor_instance set step = each.value ->> 2, last_id = head_id, head_id = (each.value ->> 3)::uuid,
    moved_at = :now
from json_array_elements(:rows::json) as each (value)
where actor_instance.inbox = any (array (select json_array_elements(:rows::json) ->> 0))
  and actor_instance.inbox = each.value ->> 0
  and actor_instance.head_id = (each.value ->> 1)::uuid;
