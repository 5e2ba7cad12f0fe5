-- name: record_event
-- Write down one thing that happened. No row: it is the death of a process, and another has written it down already.
insert into event (at, kind, subject, who, why, data) values (:now, :kind, :subject, :who, :why, :data)
on conflict do nothing;

-- name: events_after
-- What happened since a given event, oldest first.
select seq, at, kind, subject, who, why, data from event where seq > :seq order by seq limit :limit;

-- name: last_event
-- Where to start following.
select coalesce(max(seq), 0) from event;

-- name: forget_events
-- Delete the oldest events past their retention time.
delete from event where seq in (select seq from event where at < :older_than order by at limit :limit);
