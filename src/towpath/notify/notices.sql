-- name: columns
-- Not a query: the columns of a notice, in the order of `StoredNotice`.
seq, kind, subject, title, data, times, state, at, last_at, handed_at;

-- name: count_again
-- The same was handed over not long ago: it is counted there. No row: it was not.
update notify_notice set times = times + 1, last_at = :now
where seq = (select max(seq) from notify_notice
             where kind = :kind and subject = :subject and state = 'handed' and handed_at > :not_since)
returning seq;

-- name: add_notice
-- A notice, or one more of the same that waits.
insert into notify_notice (kind, subject, title, data, state, at, last_at)
values (:kind, :subject, :title, :data, 'waiting', :now, :now)
on conflict (kind, subject) where state = 'waiting' do update set times = notify_notice.times + 1, last_at = :now
returning times;

-- name: waiting_since
-- When the first one came that waits.
select min(at) from notify_notice where state = 'waiting';

-- name: hand_over
-- The oldest that wait are in the queue from now on. No row: none waits, or somebody was faster.
update notify_notice set state = 'handed', handed_at = :now
where seq in (select seq from notify_notice where state = 'waiting' order by seq limit :limit) and state = 'waiting'
returning $columns;

-- name: last_handed
-- When notices were handed over last.
select max(handed_at) from notify_notice where state = 'handed';

-- name: list_notices
-- One page of notices, newest first.
select $columns from notify_notice
where seq < coalesce(:before, 9223372036854775807) order by seq desc limit :limit;

-- name: forget_notices
-- Delete the oldest that were handed over long ago.
delete from notify_notice
where seq in (select seq from notify_notice
              where state = 'handed' and handed_at < :older_than order by handed_at limit :limit);
