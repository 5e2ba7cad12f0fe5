-- name: columns
-- Not a query: the columns of an upload, in the order of `Upload`.
upload.seq, upload.id, upload.stream, upload.state, upload.owner, upload.label, upload.opened_at, upload.touched_at,
upload.closed_at, upload.sending_at, upload.ended_at, upload.who, upload.why, upload.tries;

-- name: open_upload
-- Its senders may send from now on. No row: there is one of that id already.
insert into upload (id, stream, state, owner, label, opened_at, touched_at)
values (:id, :stream, 'receiving', :owner, :label, :now, :now)
on conflict (id) do nothing
returning $columns;

-- name: read_upload
-- One upload.
select $columns from upload where id = :id;

-- name: lock_upload
-- One upload, which nobody else changes until this transaction ends.
select $columns from upload where id = :id $locked;

-- name: touch_upload
-- Its client was heard of. Not written at every chunk: many senders of one upload would wait for each other.
update upload set touched_at = :now where id = :id and touched_at < :now - :every_us;

-- name: close_upload
-- All its senders have finished.
update upload set state = 'closing', closed_at = :now, touched_at = :now where id = :id and state = 'receiving'
returning $columns;

-- name: send_upload
-- Its closing computations are done, and their results are there.
update upload set state = 'sending', sending_at = :now, touched_at = :now, why = null, tries = 0
where id = :id and state = 'closing'
returning $columns;

-- name: finish_upload
-- Its client has all of its results.
update upload set state = 'finished', ended_at = :now where id = :id and state = 'sending'
returning $columns;

-- name: abort_upload
-- It is given up.
update upload set state = 'aborted', ended_at = :now, who = :who, why = :why
where id = :id and state in ('receiving', 'closing', 'sending')
returning $columns;

-- name: expire_upload
-- Nobody went on with it.
update upload set state = 'expired', ended_at = :now, who = :who, why = :why
where id = :id and state in ('receiving', 'sending')
returning $columns;

-- name: note_failure
-- Its closing computations have failed.
update upload set tries = tries + 1, why = :why where id = :id and state = 'closing'
returning $columns;

-- name: retry_closing
-- They are tried again as if they had never failed.
update upload set tries = 0, why = null where id = :id and state = 'closing'
returning $columns;

-- name: wanted
-- Not a query: of the stream and in the state that are asked for; null asks for all.
(cast(:stream as text) is null or stream = :stream) and (cast(:state as text) is null or state = :state);

-- name: list_uploads
-- One page, the newest first.
select $columns from upload where seq < coalesce(:before, 9223372036854775807) and $wanted
order by seq desc limit :limit;

-- name: list_uploads_of_owner
-- One page of those that somebody has opened, the newest first.
select $columns from upload where owner = :owner and seq < coalesce(:before, 9223372036854775807) and $wanted
order by seq desc limit :limit;

-- name: list_idle
-- Those of a stream whose client was not heard of since that time, the longest silent first.
select $columns from upload
where state = :state and (cast(:stream as text) is null or stream = :stream) and touched_at < :before
order by touched_at limit :limit;

-- name: list_ended
-- Those that ended before that time, the oldest first.
select $columns from upload where ended_at < :before order by ended_at limit :limit;

-- name: forget_results
-- Nobody will ask for them any more.
delete from upload_result where upload = :id;

-- name: forget_passes
-- Where its data ended in each stage.
delete from upload_pass where upload = :id;

-- name: forget_senders
-- How far its senders were.
delete from upload_sender where upload = :id;

-- name: forget_upload
-- Nobody will ask for it any more.
delete from upload where id = :id and state in ('finished', 'aborted', 'expired');
