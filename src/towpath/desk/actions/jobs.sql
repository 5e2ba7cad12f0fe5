-- name: columns
-- Not a query: the columns of a job, in the order of `Job`.
seq, id, name, kind, state, selection, arguments, rate_s, who, why, cases, done, refused, reason, made_at, begun_at,
ended_at, worked_to;

-- name: item_columns
-- Not a query: the columns of an item, in the order of `Item`.
number, case_id, state, said, done_at;

-- name: insert_job
-- Write down a job that was counted.
insert into desk_job (id, name, kind, state, selection, arguments, rate_s, who, why, cases, made_at)
values (:id, :name, :kind, 'counted', :selection, :arguments, :rate_s, :who, :why, :cases, :now)
returning $columns;

-- name: read_job
-- One job.
select $columns from desk_job where id = :id;

-- name: lock_job
-- One job, which nobody else changes until the transaction ends.
select $columns from desk_job where id = :id $locked;

-- name: find_jobs
-- Jobs whose id begins so, or whose number it is.
select $columns from desk_job where $starts_with or cast(seq as text) = :text order by seq desc limit 2;

-- name: list_jobs
-- One page of jobs, newest first.
select $columns from desk_job
where seq < coalesce(:before, 9223372036854775807) and (cast(:state as text) is null or state = :state)
order by seq desc limit :limit;

-- name: move_job
-- A job moves, if it is in one of the states from which it may.
update desk_job set state = :to, reason = :reason,
    begun_at = case when cast(:begins as integer) = 1 then :now else begun_at end,
    ended_at = case when cast(:ends as integer) = 1 then :now end,
    cases = coalesce(cast(:cases as bigint), cases)
where id = :id and state $among_states
returning $columns;

-- name: count_done
-- The items of a job up to a number have their outcome.
update desk_job set done = done + :done, refused = refused + :refused, worked_to = :upto where id = :id;

-- name: lowest_item
-- The number of the last item that was written down, since they are written from the newest case to the oldest.
select min(number) from desk_job_item where job_id = :job;

-- name: count_items
-- How many items a job has.
select count(*) from desk_job_item where job_id = :job;

-- name: next_items
-- The next items of a job, oldest case first, with what is asked of their cases before something is done to them.
select item.number, item.case_id, desk_case.state, desk_case.flow, desk_case.stage, desk_case.kind, desk_case.topic,
       desk_case.group_id
from (select number, case_id from desk_job_item where job_id = :job and number > :after order by number limit :limit)
as item left join desk_case on desk_case.id = item.case_id
order by item.number;

-- name: items_done
-- Of the items after one number up to another, those that were not refused are done.
update desk_job_item set state = 'done', done_at = :now
where job_id = :job and number > :after and number <= :upto and state = 'waiting';

-- name: list_items
-- One page of the items of a job.
select $item_columns from desk_job_item
where job_id = :job and number > :after and (cast(:state as text) is null or state = :state)
order by number limit :limit;

-- name: cases_now
-- Where the cases of a job are now.
select desk_case.state, count(*) from desk_job_item join desk_case on desk_case.id = desk_job_item.case_id
where job_id = :job and desk_job_item.state = 'done' group by desk_case.state;

-- name: forget_items
-- Delete some items of jobs that have ended before a time.
delete from desk_job_item where (job_id, number) in (
    select item.job_id, item.number from desk_job_item as item join desk_job on desk_job.id = item.job_id
    where desk_job.ended_at < :before limit :limit);

-- name: forget_jobs
-- Delete jobs that have ended before a time and have no items any more.
delete from desk_job where seq in (
    select seq from desk_job
    where ended_at < :before and not exists (select 1 from desk_job_item where job_id = desk_job.id)
    order by seq limit :limit);
