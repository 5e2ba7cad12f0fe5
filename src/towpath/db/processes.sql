-- name: register_process
-- A new process, alive from now on.
insert into process (id, name, host, pid, state, started_at, beat_at, lease_until)
values (:id, :name, :host, :pid, 'alive', :now, :now, :now + :lease_us)
returning lease_until;

-- name: renew_lease
-- A beat of a living process. No row: it was declared dead.
update process set beat_at = :now, lease_until = :now + :lease_us
where id = :id and state = 'alive'
returning lease_until;

-- name: stop_process
-- A process ends in an orderly way.
update process set state = 'stopped', beat_at = :now, lease_until = :now where id = :id and state = 'alive'
returning id;

-- name: mark_dead
-- Declare dead whoever's lease ran out, if the lease of the one who says so has not.
update process set state = 'dead'
where state = 'alive' and lease_until < :now and id <> :me
  and exists (select 1 from process as mine where mine.id = :me and mine.state = 'alive' and mine.lease_until >= :now)
returning id;

-- name: unsettled_dead
-- The dead whose claims have not been freed yet, or whose death has not been written down.
select id, name, host, pid, beat_at from process where state = 'dead' and is_settled = 0 order by id;

-- name: settle_death
-- The claims of this dead process are free and its death is in the event log.
update process set is_settled = 1 where id = :id and state = 'dead';

-- name: list_processes
-- All rows, newest first.
select id, name, host, pid, state, started_at, beat_at, lease_until from process order by started_at desc, id;

-- name: forget_processes
-- Delete rows of processes that ended long ago and are settled.
delete from process where beat_at < :older_than and (state = 'stopped' or (state = 'dead' and is_settled = 1));
