-- name: columns
-- Not a query: the columns of a row of the trail, in the order of `AuditRow`.
seq, at, who, known_by, what, subject, outcome, reason, request;

-- name: add_row
-- Somebody asked for something.
insert into access_audit (at, who, known_by, what, subject, outcome, reason, request)
values (:now, :who, :known_by, :what, :subject, :outcome, :reason, :request)
returning seq;

-- name: end_row
-- It is known what came of it. No row: that was known before.
update access_audit set outcome = :outcome, reason = :reason where seq = :seq and outcome = 'begun' returning seq;

-- name: list_rows
-- One page of the trail, newest first.
select $columns from access_audit
where seq < coalesce(:before, 9223372036854775807) order by seq desc limit :limit;

-- name: list_rows_of_who
-- One page of what one person asked for, newest first.
select $columns from access_audit
where who = :who and seq < coalesce(:before, 9223372036854775807) order by seq desc limit :limit;

-- name: list_rows_of_subject
-- One page of what was asked about one thing, by one person or all, newest first.
select $columns from access_audit
where subject = :subject and who = coalesce(:who, who) and seq < coalesce(:before, 9223372036854775807) order by seq desc limit :limit;

-- name: forget_rows
-- Delete the oldest rows past their retention time.
delete from access_audit where seq in (select seq from access_audit where at < :older_than order by at limit :limit);
