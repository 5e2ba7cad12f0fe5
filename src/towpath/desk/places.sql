-- name: places
-- How many records are where, by the batch in which they have failed first. Gaps and strays are no records that arrived.
select hash, state, count(*) from desk_case
where flow = :flow and kind = 'error' and state not in ('replaying', 'resolved') group by hash, state;

-- name: sent
-- What is out.
select id, hash, attempts + 1 from desk_case where flow = :flow and kind = 'error' and state = 'replaying';

-- name: kept_attempts
-- How many failures are kept.
select count(*) from desk_attempt join desk_case on desk_case.id = desk_attempt.case_id where desk_case.flow = :flow;

-- name: strays
-- How many cases are no failures of a flow.
select count(*) from desk_case where flow = :flow and kind = 'stray';

-- name: forgotten
-- What was deleted when its time was over.
select kind, state, cases, attempts from desk_forgotten where flow = :flow;

-- name: known
-- Those of some ids that cases have.
select id from desk_case where id $among_ids;

-- name: has_forgotten
-- Whether any case was ever deleted.
select count(*) from desk_forgotten;

-- name: resolved
-- Those of some cases that were resolved until a time.
select id from desk_case where id $among_ids and state = 'resolved' and settled_at <= :until;
