-- name: columns
-- Not a query: the columns of a duty, in the order of `Duty`.
name, kind, host, spec, wish, state, launch, launch_id, handle, process_id, launched_at, ready_at, exited_at, exit_code,
exit_signal, replaced, early_deaths, next_try_at, trouble, who, why, updated_at;

-- name: all_duties
-- Every duty by name.
select $columns from duty order by name;

-- name: duties_version
-- Another one whenever something about a duty has changed.
select count(*), coalesce(sum(updated_at - 1700000000000000), 0) from duty;

-- name: read_duty
-- One duty.
select $columns from duty where name = :name;

-- name: lock_duty
-- One duty, which nobody else changes until this transaction ends.
select $columns from duty where name = :name $locked;

-- name: insert_duty
-- A new duty waits for its first start. No row: it is there already.
insert into duty (name, kind, host, spec, wish, state, who, why, updated_at)
values (:name, :kind, :host, :spec, 'run', 'waiting', :who, :why, :now)
on conflict (name) do nothing
returning $columns;

-- name: change_duty
-- It is to run in this way; a process that runs in another way makes way for a new one.
update duty set kind = :kind, host = :host, spec = :spec, wish = 'run', who = :who, why = :why, updated_at = :now,
                replaced = case when :is_other = 1 then launch else replaced end
where name = :name
returning $columns;

-- name: want_duty
-- It is to run, as if it had never died.
update duty set wish = 'run', state = 'waiting', early_deaths = 0, next_try_at = null, trouble = '', who = :who,
                why = :why, updated_at = :now
where name = :name and state in ('stopped', 'down', 'failed')
returning $columns;

-- name: replace_launch
-- What runs of it is to make way for a new start.
update duty set wish = 'run', replaced = launch, who = :who, why = :why, updated_at = :now
where name = :name and state in ('starting', 'ready', 'stopping')
returning $columns;

-- name: wish_stop
-- It is not to run.
update duty set wish = 'stop', who = :who, why = :why, updated_at = :now where name = :name
returning $columns;

-- name: cancel_duty
-- Nothing of it runs, and nothing of it is to run.
update duty set state = 'stopped', next_try_at = null, updated_at = :now
where name = :name and wish = 'stop' and state in ('waiting', 'down', 'failed')
returning $columns;

-- name: launch_duty
-- A start of it is taken: from now on only a process that shows this launch id may work.
update duty set state = 'starting', launch = launch + 1, launch_id = :launch_id, handle = null, process_id = null,
                launched_at = :now, ready_at = null, exited_at = null, exit_code = null, exit_signal = null,
                next_try_at = null, updated_at = :now
where name = :name and wish = 'run' and state in ('waiting', 'down')
returning $columns;

-- name: handles_of_launch
-- The last few handles of a duty, which nobody else changes until this transaction ends.
select handles from duty where launch_id = :launch_id $locked;

-- name: note_handle
-- By what its launcher finds the process of a launch.
update duty set handle = :handle, handles = :handles, trouble = '', updated_at = :now where launch_id = :launch_id;

-- name: note_exit
-- The process of a launch has ended, as its launcher has seen it.
update duty set exited_at = :now, exit_code = :exit_code, exit_signal = :exit_signal, updated_at = :now,
                trouble = case when :trouble = '' then trouble else :trouble end
where launch_id = :launch_id and exited_at is null
returning name;

-- name: note_trouble
-- What stands in the way of a launch.
update duty set trouble = :trouble, updated_at = :now where launch_id = :launch_id
returning name;

-- name: adopt_launch
-- A process shows itself for its launch. No row: the launch is not the current one, or another process has it.
update duty set process_id = :process_id, updated_at = :now
where name = :name and launch = :launch and launch_id = :launch_id
  and (process_id is null or process_id = :process_id) and state in ('starting', 'ready')
returning name;

-- name: give_back_launch
-- A process that was never ready has ended in order: another of the same launch may show itself.
update duty set process_id = null, updated_at = :now
where launch_id = :launch_id and process_id = :process_id and state = 'starting';

-- name: is_current
-- Whether a launch is the one that may work.
select 1 from duty where launch_id = :launch_id and (process_id is null or process_id = :process_id);

-- name: duty_ready
-- The process of a launch is at work.
update duty set state = 'ready', ready_at = :now, early_deaths = 0, trouble = '', updated_at = :now
where launch_id = :launch_id and state = 'starting'
returning $columns;

-- name: stop_duty
-- The process of a launch is told to end.
update duty set state = 'stopping', updated_at = :now
where launch_id = :launch_id and state in ('starting', 'ready') and (wish = 'stop' or replaced = launch)
returning $columns;

-- name: duty_died
-- The process of a launch is gone for certain; the next start is due after a while.
update duty set state = 'down', launch_id = null, next_try_at = :next_try_us, early_deaths = :early_deaths,
                trouble = :trouble, updated_at = :now
where launch_id = :launch_id and state in ('starting', 'ready')
returning $columns;

-- name: give_up_duty
-- It has died too often before it was ready.
update duty set state = 'failed', next_try_at = null, updated_at = :now where name = :name and state = 'down'
returning $columns;

-- name: duty_ended
-- The process of a launch has ended, and it is not to run again.
update duty set state = 'stopped', launch_id = null, trouble = :trouble, updated_at = :now
where launch_id = :launch_id and state = 'stopping' and wish = 'stop'
returning $columns;

-- name: duty_made_way
-- The process of a launch has ended, and the next start may come at once.
update duty set state = 'waiting', launch_id = null, early_deaths = 0, trouble = :trouble, updated_at = :now
where launch_id = :launch_id and state = 'stopping' and wish = 'run'
returning $columns;

-- name: forget_duty
-- A duty that nobody names any more and of which nothing runs.
delete from duty where name = :name and state = 'stopped';
