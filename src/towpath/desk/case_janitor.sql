-- name: settled_before
-- Settled cases whose time is over, the oldest first.
select id, flow, kind, state, group_id, attempts from desk_case
where settled_at < :before order by settled_at, seq limit :limit $locked;

-- name: ignored_before
-- Cases of one flow that a rule has ignored and whose time is over, the oldest first.
select id, flow, kind, state, group_id, attempts from desk_case
where flow = :flow and state = 'ignored' and moved_at < :before order by seq limit :limit $locked;

-- name: forget_cases
-- These cases are gone.
delete from desk_case where id $among_ids;

-- name: forget_attempts
-- What belonged to these cases is gone.
delete from desk_attempt where case_id $among_ids;

-- name: forget_bodies
-- What belonged to these cases is gone.
delete from desk_body where case_id $among_ids;

-- name: forget_edits
-- What belonged to these cases is gone.
delete from desk_edit where case_id $among_ids;

-- name: forget_history
-- What belonged to these cases is gone.
delete from desk_history where case_id $among_ids;

-- name: add_forgotten
-- So many cases of a kind are gone.
insert into desk_forgotten (flow, kind, state, cases, attempts) values (:flow, :kind, :state, :cases, :attempts)
on conflict (flow, kind, state) do update
set cases = desk_forgotten.cases + excluded.cases, attempts = desk_forgotten.attempts + excluded.attempts;

-- name: forgotten
-- What is gone of a flow.
select kind, state, cases, attempts from desk_forgotten where flow = :flow;

-- name: named_blobs
-- Those of some files that a body names.
select blob from desk_body where blob $among_names;
