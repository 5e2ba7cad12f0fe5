-- name: instances_past_time
-- Instances that a call has made and that came to rest long ago, the oldest first.
select inbox from actor_instance
where parent is not null and head_id is null and phase = :phase and moved_at < :before
order by moved_at limit :limit $past_locks;

-- name: lock_inboxes
-- Whoever sends one of them a start has its inbox, or waits for it here.
select name from inbox where name $among_inboxes order by name $past_locks;

-- name: delete_instances
-- Forget instances, but not one that has been sent a start since, or whose process still works.
delete from actor_instance where inbox $among_inboxes and not exists (
    select 1 from message
    where message.inbox = actor_instance.inbox and message.state = 'NEW' and message.deliver_after is null)
  and not exists (
    select 1 from spawned where spawned.spawner = actor_instance.inbox and spawned.launch_id is not null)
returning inbox;

-- name: delete_spawned
-- What is known of their processes.
delete from spawned where spawner $among_inboxes;

-- name: delete_inboxes
-- Nobody will read them.
delete from inbox where name $among_inboxes;
