-- name: was_wrong
-- Not a query: records that have failed again with a correction, and those of which a person has made another edit.
desk_case.attempts > desk_touched.attempt or desk_case.edit <> desk_touched.edit;

-- name: was_right
-- Not a query: records that have loaded with a correction.
desk_case.state = 'resolved' and desk_case.edit = desk_touched.edit;

-- name: to_judge
-- Some cases with corrections of which it is known by now whether they were right.
select distinct desk_touched.case_id from desk_touched join desk_case on desk_case.id = desk_touched.case_id
where desk_touched.verdict = 'unknown' and (($was_wrong) or ($was_right)) limit :limit;

-- name: judge
-- The verdict over the corrections of some cases.
update desk_touched set judged_at = :now, verdict = case when exists (
        select 1 from desk_case where desk_case.id = desk_touched.case_id and ($was_wrong)) then 'wrong' else 'right' end
where verdict = 'unknown' and case_id $among_ids and exists (
    select 1 from desk_case where desk_case.id = desk_touched.case_id and (($was_wrong) or ($was_right)))
returning rule_id, verdict;

-- name: forget_touched
-- Some of what a rule has changed before a time, if its fate is known or its case is gone.
delete from desk_touched where (case_id, edit, field) in (
    select case_id, edit, field from desk_touched
    where rule_id = :rule and made_at < :before and (verdict <> 'unknown' or not exists (
        select 1 from desk_case where desk_case.id = desk_touched.case_id))
    order by made_at limit :limit);

-- name: list_touched
-- What a rule has changed, the newest first.
select desk_touched.case_id, desk_touched.edit, desk_touched.field, desk_touched.rule_id, desk_touched.before,
       desk_touched.after, desk_touched.verdict, desk_touched.made_at, desk_case.state, desk_case.topic,
       desk_case.partition, desk_case.start_offset
from desk_touched left join desk_case on desk_case.id = desk_touched.case_id
where desk_touched.rule_id = :rule
  and (desk_touched.made_at, desk_touched.case_id, desk_touched.edit, desk_touched.field)
      < (:made_at, :case_id, :edit, :field)
order by desk_touched.made_at desc, desk_touched.case_id desc, desk_touched.edit desc, desk_touched.field desc
limit :limit;

-- name: count_touched
-- How often which verdict was given over what a rule has changed.
select rule_id, verdict, count(*) from desk_touched
where rule_id in (select id from desk_rule where flow = :flow) group by rule_id, verdict;

-- name: count_verdicts
-- How often operators have agreed with a rule, and not; without a rule: where there was nothing to suggest.
select rule_id, agrees, count(*) from desk_verdict where flow = :flow group by rule_id, agrees;

-- name: open_with_rule
-- Cases that are on their way or in front of a person with a correction of a rule in their bodies.
select distinct desk_touched.case_id, desk_touched.edit from desk_touched
join desk_case on desk_case.id = desk_touched.case_id and desk_case.edit = desk_touched.edit
where desk_touched.rule_id = :rule and desk_case.state in ('open', 'waiting', 'parked')
order by desk_touched.case_id limit :limit;
