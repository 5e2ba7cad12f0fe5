-- name: among_ids
-- Not a query: is one of the ids in the JSON array :ids.
= any (array (select json_array_elements_text(:ids::json)::uuid));

-- name: among_states
-- Not a query: is one of the texts in the JSON array :states.
= any (array (select json_array_elements_text(:states::json)));

-- name: in_groups
-- Not a query: belongs to one of the groups in the JSON array :groups, if that is given.
(:groups::text is null or group_id = any (array (select json_array_elements_text(:groups::json)::bigint)));

-- name: of_flow_before
-- Not a query: those of a flow in a state before a number, and from another one on.
-- Said so that only one index has them in order.
-- If it was said plainly, the planner might read all newer cases of others, in the order of their numbers.
(flow, state, seq) >= (:flow::text, :state::text, :floor::bigint)
and (flow, state, seq) < (:flow::text, :state::text, :before::bigint);

-- name: of_group_before
-- Not a query: the same for a group.
(group_id, state, seq) >= (:group::bigint, :state::text, :floor::bigint)
and (group_id, state, seq) < (:group::bigint, :state::text, :before::bigint);

-- name: of_flow_after
-- Not a query: those of a flow in a state after a number, said so that only one index has them in order.
(flow, state, seq) > (:flow::text, :state::text, :after::bigint)
and (flow, state, seq) < (:flow::text, :state::text, 9223372036854775807);

-- name: of_group_after
-- Not a query: the same for a group.
(group_id, state, seq) > (:group::bigint, :state::text, :after::bigint)
and (group_id, state, seq) < (:group::bigint, :state::text, 9223372036854775807);

-- name: without_sorting
-- Not a query: the planner takes a filter that may be empty for one that lets hardly anything through.
-- And it takes a flood that came a moment ago for a few rows. It would read all and sort it.
set local enable_sort = off;

-- name: with_sorting
-- Not a query: as it was.
set local enable_sort = on;

-- name: locked
-- Not a query: nobody else may change these rows until the transaction ends.
for update;

-- name: has_text
-- Not a query: the message holds :text, if that is given.
(:text::text is null or strpos(message, :text::text) > 0);

-- name: holds_body
-- Not a query: the body that goes out next holds :body, if that is given. Bodies in files are not searched.
(:body::bytea is null or exists (
    select 1 from desk_body left join desk_edit on desk_edit.case_id = desk_case.id and desk_edit.edit = desk_case.edit
    where desk_body.case_id = desk_case.id
      and position(:body::bytea in coalesce(desk_edit.value, desk_body.value)) > 0));

-- name: fail_again
-- Cases have failed once more.
-- Of each row: id, group, fingerprint, code, step, exception, message, output, where the error record lies, when.
update desk_case
set group_id = (each.value ->> 1)::bigint, fingerprint = each.value ->> 2, code = (each.value ->> 3)::integer,
    step = each.value ->> 4, exception = each.value ->> 5, message = each.value ->> 6, output = each.value ->> 7,
    error_topic = each.value ->> 8, error_partition = (each.value ->> 9)::integer,
    error_offset = (each.value ->> 10)::bigint, failed_at = (each.value ->> 11)::bigint, attempts = attempts + 1
from json_array_elements(:rows::json) as each (value)
where desk_case.id = any (array (select (json_array_elements(:rows::json) ->> 0)::uuid))
  and desk_case.id = (each.value ->> 0)::uuid
returning desk_case.id;
