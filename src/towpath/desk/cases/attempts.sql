-- name: batches_of
-- In which batches some cases have failed.
select case_id, hash from desk_attempt where case_id $among_ids;

-- name: attempts_of
-- All failures of a case with their traces, the first one first.
select attempt, code, step, exception, message, coalesce(desk_trace.trace, ''), hash, version, process, error_topic,
       error_partition, error_offset, failed_at
from desk_attempt left join desk_trace on desk_trace.id = desk_attempt.trace_id
where case_id = :case order by attempt;

-- name: there
-- Those of some ids that cases have.
select id from desk_case where id $among_ids;
