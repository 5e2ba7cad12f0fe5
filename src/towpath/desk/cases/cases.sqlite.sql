-- name: among_ids
-- Not a query: is one of the ids in the JSON array :ids.
in (select value from json_each(:ids));

-- name: among_states
-- Not a query: is one of the texts in the JSON array :states.
in (select value from json_each(:states));

-- name: in_groups
-- Not a query: belongs to one of the groups in the JSON array :groups, if that is given.
(:groups is null or group_id in (select value from json_each(:groups)));

-- name: of_flow_before
-- Not a query: those of a flow in a state before a number, and from another one on.
-- The planner would take them for so few that it sorts them, if it was not told that most are.
flow = :flow and state = :state and likely(seq < :before) and likely(seq >= :floor);

-- name: of_group_before
-- Not a query: the same for a group.
group_id = :group and state = :state and likely(seq < :before) and likely(seq >= :floor);

-- name: of_flow_after
-- Not a query: those of a flow in a state after a number.
flow = :flow and state = :state and seq > :after;

-- name: of_group_after
-- Not a query: the same for a group.
group_id = :group and state = :state and seq > :after;

-- name: without_sorting
-- Not a query: nothing, since there is no other way to read it.
select 1;

-- name: with_sorting
-- Not a query: as it was.
select 1;

-- name: locked
-- Not a query: nothing, since there is one writer at a time.
;

-- name: has_text
-- Not a query: the message holds :text, if that is given.
(:text is null or instr(message, :text) > 0);

-- name: holds_body
-- Not a query: the body that goes out next holds :body, if that is given. Bodies in files are not searched.
(:body is null or exists (
    select 1 from desk_body left join desk_edit on desk_edit.case_id = desk_case.id and desk_edit.edit = desk_case.edit
    where desk_body.case_id = desk_case.id and instr(coalesce(desk_edit.value, desk_body.value), :body) > 0));

-- name: fail_again
-- Cases have failed once more.
-- Of each row: id, group, fingerprint, code, step, exception, message, output, where the error record lies, when.
update desk_case
set group_id = each.value ->> 1, fingerprint = each.value ->> 2, code = each.value ->> 3, step = each.value ->> 4,
    exception = each.value ->> 5, message = each.value ->> 6, output = each.value ->> 7,
    error_topic = each.value ->> 8, error_partition = each.value ->> 9, error_offset = each.value ->> 10,
    failed_at = each.value ->> 11, attempts = attempts + 1
from json_each(:rows) as each
where desk_case.id = each.value ->> 0
returning desk_case.id;
