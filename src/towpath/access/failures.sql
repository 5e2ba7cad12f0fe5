-- name: lock_failures
-- How often it has failed, and when last; nobody else counts until this transaction ends.
insert into access_failure (subject, failures, last_at) values (:subject, 0, :now)
on conflict (subject) do update set subject = excluded.subject
returning failures, last_at;

-- name: note_failure
-- One more has failed, or is about to be tried; long after the last one it is counted from one again.
update access_failure
set failures = case when last_at < :forgotten_before then 1 else failures + 1 end, last_at = :now
where subject = :subject;

-- name: take_back_failure
-- It did not fail after all.
update access_failure set failures = failures - 1 where subject = :subject and failures > 0;

-- name: forget_failure
-- It did not fail, and what failed before does not count any more.
delete from access_failure where subject = :subject;

-- name: forget_failures
-- Delete the oldest that do not count any more.
delete from access_failure
where subject in (select subject from access_failure where last_at < :older_than order by last_at limit :limit);
