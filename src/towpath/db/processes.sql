-- name: register_process
-- A new process, alive from now on.
insert into process (id, name, host, pid, machine, born, state, started_at, beat_at, lease_until, kind, version, duty,
                     launch, ping_address)
values (:id, :name, :host, :pid, :machine, :born, 'alive', :now, :now, :now + :lease_us, :kind, :version, :duty,
        :launch, :ping_address)
returning lease_until;

-- name: renew_lease
-- A beat of a living process, with what it says of itself. No row: it was declared dead.
update process set beat_at = :now, lease_until = :now + :lease_us, status = :status, progress = :progress
where id = :id and state = 'alive'
returning lease_until;

-- name: ready_process
-- A process is at work from now on.
update process set ready_at = :now, status = :status where id = :id and state = 'alive' and ready_at is null;

-- name: stop_process
-- A process ends in an orderly way.
update process set state = 'stopped', beat_at = :now, lease_until = :now where id = :id and state = 'alive'
returning id;

-- name: mark_dead
-- Declare dead whoever's lease ran out, if the one who says so has not beaten since it decided, and did so lately.
update process set state = 'dead'
where state = 'alive' and lease_until < :now and id <> :me
  and exists (
    select 1 from process as mine
    where mine.id = :me and mine.state = 'alive' and mine.lease_until = :until and mine.lease_until >= :now + :half
  )
returning id;

-- name: alive_on_machine
-- Who should be alive on one machine: those after one of them in a ring of all ids.
select id, pid, born from process where state = 'alive' and machine = :machine and born <> '' and id <> :me
order by case when id > :me then 0 else 1 end, id
limit :most;

-- name: mark_silent
-- Declare dead who has not beaten for a while, or not since the clock was set back. No row: it has beaten meanwhile.
update process set state = 'dead'
where id = :id
  and (state = 'dead' or (state = 'alive' and (beat_at < :now - :silent_us or beat_at > :now + :silent_us)))
returning id;

-- name: mark_gone
-- Declare dead who is certainly gone.
update process set state = 'dead' where id = :id and state = 'alive'
returning id;

-- name: unsettled_dead
-- The dead whose claims have not been freed yet, or whose death has not been written down.
select id, name, host, pid, beat_at, lease_until from process where state = 'dead' and is_settled = 0 order by id;

-- name: settle_death
-- The claims of this dead process are free and its death is in the event log.
update process set is_settled = 1 where id = :id and state = 'dead';

-- name: columns
-- Not a query: the columns of a process, in the order of `ProcessRow`.
id, name, host, pid, state, kind, version, duty, launch, status, progress, ping_address, started_at, beat_at,
lease_until, ready_at;

-- name: list_processes
-- All rows, newest first.
select $columns from process order by started_at desc, id;

-- name: beats_of_duties
-- The last beats of processes that do duties, except those that have ended long ago.
select id, pid, case state when 'dead' then 1 else 0 end, beat_at, lease_until, ping_address from process
where duty is not null and (state = 'alive' or (state = 'dead' and is_settled = 0) or beat_at > :now - 60000000);

-- name: addresses_of_kind
-- Where living processes of one kind answer, the newest last.
select name, ping_address from process where state = 'alive' and kind = :kind and ping_address is not null
order by started_at;

-- name: find_process
-- The process of an id, or the newest of a name or a duty.
select $columns from process where id = :name or name = :name or duty = :name
order by case when id = :name then 0 else 1 end, started_at desc limit 1;

-- name: forget_processes
-- Delete rows of processes that ended long ago and are settled.
delete from process where beat_at < :older_than and (state = 'stopped' or (state = 'dead' and is_settled = 1));
