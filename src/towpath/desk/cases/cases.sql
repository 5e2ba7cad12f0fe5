-- name: columns
-- Not a query: the columns of a case, in the order of `Case`.
seq, id, flow, stage, kind, group_id, fingerprint, state, code, step, exception, message, output, topic, topic_id, partition,
start_offset, stop_offset, key, key_hash, hash, error_topic, error_partition, error_offset, attempts, give_backs,
ticket, lane, due_at, behind, assignee, rule, edit, body_bytes, first_failed_at, failed_at, taken_at, moved_at,
settled_at, settled_by, settled_why;

-- name: chosen
-- Not a query: what a selection asks of a case beside group and state.
flow = coalesce(:flow, flow) and stage = coalesce(:stage, stage) and step = coalesce(:step, step)
and code = coalesce(:code, code) and exception = coalesce(:exception, exception)
and fingerprint = coalesce(:fingerprint, fingerprint)
and failed_at >= coalesce(:since, failed_at)
and failed_at < coalesce(:until, failed_at + 1) and $has_text
and coalesce(assignee, '') = coalesce(:assignee, assignee, '') and $holds_body;

-- name: case_time
-- What time it is.
select :now;

-- name: read_case
-- One case.
select $columns from desk_case where id = :id;

-- name: case_of_seq
-- The case of a number.
select $columns from desk_case where seq = :seq;

-- name: cases_between
-- The cases whose ids begin with the same characters: two of them are enough to know that there are several.
select $columns from desk_case where id >= :low and id <= :high order by id limit 2;

-- name: cases_of_input
-- What has become of the record at one place of an input topic, the oldest first.
select $columns from desk_case where topic_id = :topic_id and partition = :partition and start_offset = :offset
order by seq;

-- name: lock_cases
-- Some cases, which nobody else changes until the transaction ends.
select $columns from desk_case where id $among_ids order by id $locked;

-- name: read_cases
-- Some cases, as they are.
select $columns from desk_case where id $among_ids order by id;

-- name: all_before
-- Not a query: everything, the newest first.
from desk_case where seq < :before order by seq desc limit :limit;

-- name: flow_before
-- Not a query: a flow's cases in one state, the newest first.
from desk_case where $of_flow_before order by flow desc, state desc, seq desc limit :limit;

-- name: group_before
-- Not a query: a group's cases in one state, the newest first.
from desk_case where $of_group_before order by group_id desc, state desc, seq desc limit :limit;

-- name: chosen_of_all
-- Not a query: what is looked for among everything.
from desk_case where seq < :before and seq >= :floor and $chosen order by seq desc limit :limit;

-- name: chosen_of_flow
-- Not a query: what is looked for among a flow's cases in one state.
from desk_case where $of_flow_before and $chosen order by flow desc, state desc, seq desc limit :limit;

-- name: chosen_of_group
-- Not a query: what is looked for among a group's cases in one state.
from desk_case where $of_group_before and $chosen order by group_id desc, state desc, seq desc limit :limit;

-- name: chosen_of_ids
-- Not a query: cases that are named.
from desk_case where id $among_ids and $in_groups and state $among_states and seq < :before and seq >= :floor and $chosen
order by seq desc limit :limit;

-- name: chosen_of_assignee
-- Not a query: what somebody has to do.
from desk_case where assignee = :assignee and state $among_states and seq < :before and seq >= :floor and $chosen
order by assignee desc, seq desc limit :limit;

-- name: page_of_all
-- One page of everything.
select $columns $all_before;

-- name: page_of_flow
-- One page of a flow's cases in one state.
select $columns $flow_before;

-- name: page_of_group
-- One page of a group's cases in one state.
select $columns $group_before;

-- name: keys_of_all
-- Which cases one page of everything has.
select seq, id $all_before;

-- name: keys_of_flow
-- Which cases one page of a flow's in one state has.
select seq, id $flow_before;

-- name: keys_of_group
-- Which cases one page of a group's in one state has.
select seq, id $group_before;

-- name: read_in_order
-- For what follows: of what is asked for in an order, read only as much as is needed.
$without_sorting;

-- name: read_as_usual
-- That is over.
$with_sorting;

-- name: found_of_all
-- One page of what is looked for among everything.
select $columns $chosen_of_all;

-- name: found_of_flow
-- One page of what is looked for among a flow's cases in one state.
select $columns $chosen_of_flow;

-- name: found_of_group
-- One page of what is looked for among a group's cases in one state.
select $columns $chosen_of_group;

-- name: found_of_ids
-- One page of cases that are named.
select $columns $chosen_of_ids;

-- name: found_of_assignee
-- One page of what somebody has to do.
select $columns $chosen_of_assignee;

-- name: found_keys_of_all
-- Which cases one page of what is looked for among everything has.
select seq, id $chosen_of_all;

-- name: found_keys_of_flow
-- Which cases one page of what is looked for among a flow's in one state has.
select seq, id $chosen_of_flow;

-- name: found_keys_of_group
-- Which cases one page of what is looked for among a group's in one state has.
select seq, id $chosen_of_group;

-- name: found_keys_of_ids
-- Which cases one page of those that are named has.
select seq, id $chosen_of_ids;

-- name: found_keys_of_assignee
-- Which cases one page of what somebody has to do has.
select seq, id $chosen_of_assignee;

-- name: newest_below
-- The number of the newest case below another.
select max(seq) from desk_case where seq < :below;

-- name: newer_of_all
-- What comes next, the oldest first, among everything.
select $columns from desk_case where seq > :after and $chosen order by seq limit :limit;

-- name: newer_of_flow
-- What comes next among a flow's cases in one state.
select $columns from desk_case where $of_flow_after and $chosen order by flow, state, seq limit :limit;

-- name: newer_of_group
-- What comes next among a group's cases in one state.
select $columns from desk_case where $of_group_after and $chosen order by group_id, state, seq limit :limit;

-- name: newer_of_assignee
-- What comes next among what somebody has to do.
select $columns from desk_case where assignee = :assignee and state $among_states and seq > :after and $chosen
order by assignee, seq limit :limit;

-- name: waiting_in_lane
-- What waits in a lane, what is due first first.
select $columns from desk_case
where flow = :flow and lane = :lane and state = 'waiting' and (due_at, seq) > (:due_at, :seq)
order by due_at, seq limit :limit;

-- name: parked_behind
-- What is parked behind a case.
select $columns from desk_case where behind = :id and state = 'parked' order by seq limit :limit;

-- name: count_of_all
-- How many there are, up to a limit.
select count(*) from (select 1 from desk_case where $chosen limit :limit) as found;

-- name: count_of_flow
-- How many of a flow's cases in one state there are, up to a limit.
select count(*) from (select 1 from desk_case where flow = :flow and state = :state and $chosen limit :limit) as found;

-- name: count_of_group
-- How many of a group's cases in one state there are, up to a limit.
select count(*) from (select 1 from desk_case where group_id = :group and state = :state and $chosen limit :limit)
as found;

-- name: count_of_ids
-- How many of those that are named there are, up to a limit.
select count(*) from (
    select 1 from desk_case
    where id $among_ids and $in_groups and state $among_states and $chosen limit :limit) as found;

-- name: count_of_assignee
-- How many somebody has to do, up to a limit.
select count(*) from (
    select 1 from desk_case
    where assignee = :assignee and state $among_states and $chosen limit :limit)
as found;

-- name: flows_with_cases
-- Every flow that has a case: from one to the next, however many cases each of them has.
with recursive found (flow) as (
    select min(flow) from desk_case
    union all
    select (select min(flow) from desk_case where flow > found.flow) from found where found.flow is not null)
select flow from found where flow is not null;

-- name: lock_for_move
-- Of some cases those in one of some states, and in which; nobody else changes them any more.
select id, state from desk_case where id $among_ids and state $among_states order by id $locked;

-- name: move_cases
-- Cases go to a state. A row for each that was in the one from which they go, with what tallies and keys need.
update desk_case
set state = :to, ticket = ticket + :ticket, lane = :lane, due_at = :due_at, behind = null,
    give_backs = give_backs + :gives_back, rule = coalesce(:rule, rule), moved_at = :now,
    settled_at = case when :settles = 1 then :now end, settled_by = :settled_by, settled_why = :settled_why
where id $among_ids and state $among_states
returning id, group_id, flow, stage, key_hash;

-- name: raise_tickets
-- What was sent of these cases does not count any more; their state stays.
update desk_case set ticket = ticket + 1, moved_at = :now where id $among_ids and state $among_states
returning id;

-- name: assign_cases
-- Somebody is to look at these, or nobody in particular.
update desk_case set assignee = :assignee where id $among_ids and state $among_states
returning id;

-- name: regroup_cases
-- Cases belong to another group from now on.
update desk_case set group_id = :group, moved_at = :now where id $among_ids
returning id;

-- name: set_edit
-- What goes out next is another edit. No row: somebody was faster, or it is settled.
update desk_case set edit = :edit, moved_at = :now where id = :id and edit = :from_edit and state $among_states
returning id;

-- name: let_go
-- Bodies that nobody needs any more.
delete from desk_body where case_id $among_ids;

-- name: bodies
-- What goes out of some cases: the value of the edit that a case is set to, or the record's own.
select desk_body.case_id, coalesce(desk_edit.value, desk_body.value),
       case when desk_edit.value is null then desk_body.blob end, desk_body.headers, coalesce(desk_edit.edit, 0)
from desk_body
join desk_case on desk_case.id = desk_body.case_id
left join desk_edit on desk_edit.case_id = desk_case.id and desk_edit.edit = desk_case.edit
where desk_body.case_id $among_ids;

-- name: originals
-- What some records were, whatever was edited since.
select case_id, value, blob, headers, 0 from desk_body where case_id $among_ids;
