-- name: read_evidence
-- All counts of a flow.
select field, aspect, deciders, given, value, taken + edited from desk_evidence where flow = :flow;

-- name: evidence_of_rule
-- The strongest evidence for a rule, for people.
select given, value, taken, edited from desk_evidence
where flow = :flow and field = :field and aspect = :aspect and deciders = :deciders
order by taken + edited desc, given, value limit :limit;

-- name: count_evidence
-- How many counts a flow has.
select count(*) from desk_evidence where flow = :flow;

-- name: read_positions
-- Up to where the topics of a flow were counted.
select topic_id, partition, position from desk_learning where flow = :flow;

-- name: begin_partition
-- A partition that was never counted. No row: it was.
insert into desk_learning (flow, topic, topic_id, partition, position, moved_at)
values (:flow, :topic, :topic_id, :partition, :position, :now)
on conflict do nothing
returning position;

-- name: move_position
-- A partition was counted up to there. No row: somebody else has counted it from the same place.
update desk_learning set position = :to, moved_at = :now
where flow = :flow and topic_id = :topic_id and partition = :partition and position = :from
returning position;

-- name: edits_to_learn
-- Edits by persons with which cases were resolved, and that were not counted yet, oldest first.
select desk_case.id, desk_edit.edit, desk_edit.value, desk_case.message, desk_attempt.error_topic,
       desk_attempt.error_partition, desk_attempt.error_offset
from desk_case
join desk_edit on desk_edit.case_id = desk_case.id and desk_edit.edit = desk_case.edit
join desk_attempt on desk_attempt.case_id = desk_case.id and desk_attempt.attempt = 1
where desk_case.flow = :flow and desk_case.state = 'resolved' and desk_case.edit > 0
  and desk_edit.who not like :by_rule
  and not exists (select 1 from desk_learned
                  where desk_learned.case_id = desk_case.id and desk_learned.edit = desk_edit.edit)
order by desk_case.seq limit :limit;

-- name: mark_learned
-- An edit is counted now. No row: it was before.
insert into desk_learned (case_id, edit, at) values (:case, :edit, :now) on conflict do nothing returning edit;

-- name: forget_learned
-- Some edits whose cases are gone: they can never be counted again.
delete from desk_learned where (case_id, edit) in (
    select case_id, edit from desk_learned
    where not exists (select 1 from desk_case where desk_case.id = desk_learned.case_id) limit :limit);

-- name: old_evidence
-- Some counts that nothing has raised since a time.
select flow, field, aspect, deciders, given, value from desk_evidence where moved_at < :before limit :limit;

-- name: forget_evidence
-- Those of some counts that nothing has raised meanwhile.
delete from desk_evidence
where (flow, field, aspect, deciders, given, value) in ($rows_of) and moved_at < :before;

-- name: forget_verdicts
-- Some of what operators have said to suggestions before a time.
delete from desk_verdict where (case_id, edit, field) in (
    select case_id, edit, field from desk_verdict where at < :before limit :limit);

-- name: add_verdict
-- What an operator has put where a rule has, or has not, made a suggestion.
insert into desk_verdict (case_id, edit, flow, field, rule_id, agrees, at)
values (:case, :edit, :flow, :field, :rule, :agrees, :now) on conflict do nothing;
