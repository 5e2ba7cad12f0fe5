-- name: columns
-- Not a query: the columns of a schedule, with what is known of its last run and of its actor.
actor_schedule.name, actor_schedule.actor, actor_schedule.instance, actor_schedule.step, actor_schedule.payload,
actor_schedule.kind, actor_schedule.every_s, actor_schedule.since, actor_schedule.hour, actor_schedule.minute,
actor_schedule.to_hour, actor_schedule.zone, actor_schedule.is_enabled, actor_schedule.made_at, actor_schedule.next_at,
actor_schedule.last_at, actor_schedule.last_run, actor_schedule.skipped, actor_schedule.skip_reason,
message.state, message.owner is not null, message.reason, actor.is_enabled
from actor_schedule
left join message on message.id = actor_schedule.last_run
left join actor on actor.name = actor_schedule.actor;

-- name: insert_schedule
-- A new schedule. No row: there is one of that name.
insert into actor_schedule (name, actor, instance, step, payload, kind, every_s, since, hour, minute, to_hour, zone,
                            is_enabled, made_at, next_at)
values (:name, :actor, :instance, :step, :payload, :kind, :every_s, :since, :hour, :minute, :to_hour, :zone,
        :is_enabled, :made_at, :next_at)
on conflict (name) do nothing;

-- name: change_schedule
-- What it starts, and when. No row: there is none of that name.
update actor_schedule set instance = :instance, step = :step, payload = :payload, kind = :kind, every_s = :every_s,
    since = :since, hour = :hour, minute = :minute, to_hour = :to_hour, zone = :zone, is_enabled = :is_enabled,
    next_at = :next_at
where name = :name
returning name;

-- name: delete_schedule
-- Take it away. No row: there is none of that name.
delete from actor_schedule where name = :name returning name;

-- name: lock_schedule
-- Nobody else changes it until this transaction ends.
select name from actor_schedule where name = :name $locked;

-- name: read_schedule
-- One of them.
select $columns where actor_schedule.name = :name;

-- name: list_schedules
-- All of them, or those of one actor, by name.
select $columns where actor_schedule.actor = coalesce(:actor, actor_schedule.actor) order by actor_schedule.name;

-- name: due_schedules
-- Those whose time has come, of some actors.
select $columns where actor_schedule.next_at <= :now and actor_schedule.actor $among_actors
order by actor_schedule.next_at limit :limit;

-- name: next_due
-- When the next one is due, of some actors.
select min(next_at) from actor_schedule where next_at is not null and actor $among_actors;

-- name: take_run
-- It has its run. No row: another process was faster, or somebody has changed it.
update actor_schedule set next_at = :next_at, last_at = :at, last_run = :run_id, skipped = 0, skip_reason = null
where name = :name and next_at = :seen_at
returning name;

-- name: skip_run
-- It was due, and nothing is started. No row: another process was faster, or somebody has changed it.
update actor_schedule set next_at = :next_at, skipped = skipped + 1, skip_reason = :reason
where name = :name and next_at = :seen_at
returning name;
