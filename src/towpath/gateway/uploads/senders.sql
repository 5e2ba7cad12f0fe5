-- name: columns
-- Not a query: the columns of a sender, in the order of `Sender`.
upload, sender, input, format, columns, state, session, position, line, sequence, crc32, refused, plan, ends,
touched_at, finished_at, blocked;

-- name: this
-- Not a query: one sender.
upload = :upload and sender = :sender;

-- name: may_send
-- Not a query: it and its upload still take something.
state = 'receiving' and exists (select 1 from upload where upload.id = :upload and upload.state = 'receiving');

-- name: add_sender
-- It may send from now on. `line` is the number before that of its first line.
insert into upload_sender (upload, sender, input, format, columns, state, line, touched_at, place)
values (:upload, :sender, :input, :format, :columns, 'receiving', :line, :now, :place);

-- name: read_sender
-- One sender.
select $columns from upload_sender where $this;

-- name: list_senders
-- All senders of an upload, as they were named.
select $columns from upload_sender where upload = :upload order by place;

-- name: next_session
-- A new connection: older ones count no more. Columns that were not said are said now. No row: it takes nothing.
update upload_sender set session = session + 1, touched_at = :now, columns = coalesce(columns, :columns)
where $this and $may_send
returning $columns;

-- name: plan_chunk
-- What is about to go into the log. No row: something goes already, another session is newer, or it takes nothing.
update upload_sender set plan = :plan, touched_at = :now
where $this and session = :session and position = :position and plan is null and $may_send
returning $columns;

-- name: settle_plan
-- It has gone: the plan is what is. No row: somebody else has said so.
update upload_sender
set plan = null, position = :position, line = :line, sequence = :sequence, crc32 = :crc32, refused = :refused,
    blocked = :blocked, touched_at = :now
where $this and plan = :plan
returning $columns;

-- name: discard_plan
-- It has not gone, and never will.
update upload_sender set plan = null where $this and plan = :plan
returning $columns;

-- name: finish_sender
-- That was all. No row: it is not so far, something is under way, or another session is newer.
update upload_sender set state = 'finished', ends = :ends, finished_at = :now, touched_at = :now
where $this and session = :session and position = :position and crc32 = :crc32 and plan is null and $may_send
returning $columns;

-- name: count_receiving
-- How many senders of an upload have not finished.
select count(*) from upload_sender where upload = :upload and state = 'receiving';

-- name: count_taken
-- How much all senders of an upload have sent: bytes, and lines.
select coalesce(sum(position), 0), coalesce(sum(line), 0) from upload_sender where upload = :upload;

-- name: list_unsettled
-- Whose plan nobody has come back for since that time, the oldest first.
select $columns from upload_sender where plan is not null and touched_at < :before order by touched_at limit :limit;
