-- name: progress
-- How far spawned processes are with their messages, and which instance of an actor waits for each of those.
select spawned.spawner, spawned.message_id, spawned.percent, spawned.stage, spawned.told_at, actor_wait.inbox
from spawned left join actor_wait on actor_wait.question_id = spawned.message_id
where spawned.launch_id is not null and spawned.message_id is not null
order by spawned.spawner limit :limit;
