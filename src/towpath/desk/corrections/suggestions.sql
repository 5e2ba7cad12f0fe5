-- name: last_edits
-- Of some cases that have edits: the highest number among them.
select case_id, max(edit) from desk_edit where case_id $among_ids group by case_id;

-- name: kept_among
-- Those of some cases of which a correction goes out next that was made after their last failure.
select distinct case_id from desk_touched where case_id $among_ids and exists (
    select 1 from desk_case where desk_case.id = desk_touched.case_id and desk_case.edit = desk_touched.edit
    and desk_case.attempts = desk_touched.attempt);
