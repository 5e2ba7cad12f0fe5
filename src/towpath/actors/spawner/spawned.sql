-- name: columns
-- Not a query: the columns of a row, in the order of `Spawned`.
spawner, inbox, launch_id, machine, pid, process_id, is_ready, done, message_id, attempt, percent, stage, stop, fault,
ended, launched_at, told_at, ended_at;

-- name: read_spawned
-- What one spawner runs, or has run.
select $columns from spawned where spawner = :spawner;

-- name: begin_launch
-- A new launch takes the place of one that is over.
insert into spawned (spawner, inbox, launch_id, launched_at) values (:spawner, :inbox, :launch_id, :now)
on conflict (spawner) do update set inbox = excluded.inbox, launch_id = excluded.launch_id,
    launched_at = excluded.launched_at, $blank
where spawned.launch_id is null;

-- name: replace_launch
-- A new launch takes the place of one of which no process has shown itself. No row: one has.
update spawned set launch_id = :launch_id, launched_at = :now, $blank
where spawner = :spawner and launch_id = :old_id and process_id is null;

-- name: blank
-- Not a query: nothing is known of a launch that has just begun.
machine = null, pid = null, process_id = null, is_ready = 0, done = 0, message_id = null, attempt = 0, percent = null,
stage = null, stop = null, fault = null, ended = null, told_at = null, ended_at = null;

-- name: note_pid
-- The spawner has started the process.
update spawned set pid = :pid, machine = :machine where launch_id = :launch_id and pid is null;

-- name: show_up
-- The process itself is there. No row: another launch has taken its place, and it must not work.
update spawned set process_id = :process_id, pid = :pid, machine = :machine
where spawner = :spawner and launch_id = :launch_id and (process_id is null or process_id = :process_id) and stop is null
returning spawner;

-- name: get_ready
-- The process asks for messages from now on.
update spawned set is_ready = 1 where launch_id = :launch_id and process_id = :process_id;

-- name: take_up
-- The process has a message. No row: it is to end.
update spawned set message_id = :message_id, attempt = :attempt, percent = 0, stage = null, told_at = :now
where launch_id = :launch_id and process_id = :process_id and stop is null
returning spawner;

-- name: tell
-- How far the process is.
update spawned set percent = :percent, stage = :stage, told_at = :now
where launch_id = :launch_id and process_id = :process_id and message_id is not null;

-- name: put_down
-- The process has brought its message to an end.
update spawned set message_id = null, done = done + 1, percent = null, stage = null, told_at = :now
where launch_id = :launch_id and process_id = :process_id;

-- name: leave
-- The process comes to its end in order, or since it cannot work at all.
update spawned set ended = :ended, fault = :fault, ended_at = :now
where launch_id = :launch_id and process_id = :process_id;

-- name: ask_stop
-- The process is to end.
update spawned set stop = coalesce(stop, :reason) where spawner = :spawner and launch_id = :launch_id;

-- name: end_launch
-- The process is gone.
update spawned set launch_id = null, message_id = null, ended = :ended, ended_at = :now
where spawner = :spawner and launch_id = :launch_id;

-- name: is_wanted
-- Whether a launch may work on, and on its message if it has one.
select 1 from spawned
where launch_id = :launch_id and process_id = :process_id and stop is null
  and (:has_message = 0 or exists (
      select 1 from message where id = :message_id and state = 'ACK' and owner = :process_id));

-- name: first_waiting
-- The message that a process would get if it asked now, and over how many processes it went already.
select id, attempts - give_backs from (
    select id, seq, attempts, give_backs from (
        select id, seq, attempts, give_backs from message
        where inbox = :inbox and state = 'NEW' and deliver_after is null and (expires_at is null or expires_at > :now)
        order by $in_turn limit 1) as ready
    union all
    select id, seq, attempts, give_backs from (
        select id, seq, attempts, give_backs from message
        where inbox = :inbox and state = 'NEW' and deliver_after is not null and deliver_after <= :now
          and (expires_at is null or expires_at > :now)
        order by deliver_after limit 1) as due) as waiting
order by seq limit 1;
