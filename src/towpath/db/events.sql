-- name: record_event
-- Write down one thing that happened. No row: it is the death of a process, and another has written it down already.
insert into event (at, kind, subject, who, why, data) values (:now, :kind, :subject, :who, :why, :data)
on conflict do nothing;

-- name: columns
-- Not a query: the columns of an event.
seq, at, kind, subject, who, why, data;

-- name: list_events
-- One page of events, newest first.
select $columns from event where seq < coalesce(:before, 9223372036854775807) order by seq desc limit :limit;

-- name: list_events_of_kind
-- One page of events of one kind, newest first.
select $columns from event
where kind = :kind and seq < coalesce(:before, 9223372036854775807) order by seq desc limit :limit;

-- name: list_events_of_subject
-- One page of events about one thing, of one kind or all, newest first.
select $columns from event
where subject = :subject and kind = coalesce(:kind, kind) and seq < coalesce(:before, 9223372036854775807)
order by seq desc limit :limit;

-- name: chosen
-- Not a query: what is asked of an event that no index knows, from below :before down to :floor.
who = coalesce(:who, who) and at >= coalesce(:since, at) and at <= coalesce(:until, at)
and seq < :before and seq >= :floor
order by seq desc limit :limit;

-- name: search_events
-- Among all events, newest first.
select $columns from event where $chosen;

-- name: search_events_of_kind
-- Among events of one kind, newest first.
select $columns from event where kind = :kind and $chosen;

-- name: search_events_of_subject
-- Among events about one thing, of one kind or all, newest first.
select $columns from event where subject = :subject and kind = coalesce(:kind, kind) and $chosen;

-- name: newest_below
-- The newest event below a number.
select max(seq) from event where seq < :below;

-- name: last_before
-- The last event before a time.
select seq from event where at < :at order by at desc, seq desc limit 1;

-- name: events_after
-- What happened since a given event, oldest first.
select $columns from event where seq > :seq order by seq limit :limit;

-- name: last_event
-- Where to start following.
select coalesce(max(seq), 0) from event;

-- name: forget_events
-- Delete the oldest events past their retention time.
delete from event where seq in (select seq from event where at < :older_than order by at limit :limit);
