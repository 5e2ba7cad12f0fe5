-- name: list_events
-- One page of events, newest first.
select seq, at, kind, subject, who, why, data from event
where (:before::bigint is null or seq < :before) and (:kind::text is null or kind = :kind)
  and (:subject::text is null or subject = :subject)
order by seq desc limit :limit;
