-- name: columns
-- Not a query: the columns of a death, in the order of `Death`.
seq, duty, launch, process_id, host, pid, how, exit_code, exit_signal, trouble, last_beat_at, noticed_at, freed, back_at,
term, coordinator;

-- name: record_death
-- A launch has come to its end. No row: that is known.
insert into death (duty, launch, process_id, host, pid, how, exit_code, exit_signal, trouble, last_beat_at,
                   noticed_at, freed, term, coordinator)
values (:duty, :launch, :process_id, :host, :pid, :how, :exit_code, :exit_signal, :trouble, :last_beat_us,
        :now, :freed, :term, :coordinator)
on conflict (duty, launch) do nothing
returning $columns;

-- name: unfreed
-- Deaths after which nobody has freed yet what was the dead one's.
select $columns from death where freed is null order by seq;

-- name: note_freed
-- What was the dead one's is free.
update death set freed = :freed where seq = :seq and freed is null;

-- name: note_back
-- The duty is done again.
update death set back_at = :now where duty = :duty and back_at is null;

-- name: list_deaths
-- One page of deaths, newest first.
select $columns from death
where seq < coalesce(:before, 9223372036854775807) and duty = coalesce(:duty, duty) order by seq desc limit :limit;

-- name: forget_deaths
-- Delete the oldest that were long ago.
delete from death
where seq in (select seq from death where noticed_at < :older_than and freed is not null order by noticed_at limit :limit);
