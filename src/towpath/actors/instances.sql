-- name: columns
-- Not a query: the columns of an instance, in the order of `Instance`.
actor_instance.inbox, actor_instance.actor, actor_instance.instance, actor_instance.phase, actor_instance.step,
actor_instance.head_id, actor_instance.last_id, actor_instance.run_id, actor_instance.owner, actor_instance.due_at,
actor_instance.needs, actor_instance.restarts, actor_instance.reason, actor_instance.abort, actor_instance.parent,
actor_instance.is_tied, actor_instance.moved_at;

-- name: of_actors
-- Not a query: is one of some actors, written so that no index gives it: most of an actor's instances may be asleep.
(actor || '') $among_actors;

-- name: register_actor
-- A process knows this class; what it knows of it replaces what was known.
insert into actor (name, about, shape, seen_at) values (:name, :about, :shape, :now)
on conflict (name) do update set about = excluded.about, shape = excluded.shape, seen_at = excluded.seen_at;

-- name: list_actors
-- All classes that any process has known.
select name, about, shape, is_enabled, seen_at from actor order by name;

-- name: disabled_actors
-- Whose instances do not run.
select name from actor where is_enabled = 0;

-- name: enable_actor
-- Let its instances run, or not. No row: it is so already, or unknown.
update actor set is_enabled = :is_enabled where name = :name and is_enabled <> :is_enabled
returning name;

-- name: register_instance
-- Make an instance known, so that it can be sent a start.
insert into actor_instance (inbox, actor, instance, phase, moved_at) values (:inbox, :actor, :instance, 'idle', :now)
on conflict (inbox) do nothing;

-- name: read_instance
-- One instance.
select $columns from actor_instance where inbox = :inbox;

-- name: list_instances
-- One page of instances, by name.
select $columns from actor_instance
where actor = coalesce(:actor, actor) and phase = coalesce(:phase, phase) and inbox > :after
order by inbox limit :limit;

-- name: lock_instances
-- Some instances, which nobody else changes until this transaction ends.
select $columns from actor_instance where inbox $among_inboxes order by inbox $locked;

-- name: lock_instances_now
-- The same, with the time.
select :now, $columns from actor_instance where inbox $among_inboxes order by inbox $locked;

-- name: due_instances
-- Instances whose head may run, the longest due first. A plain limit would let PostgreSQL plan it anew every time.
select $columns from actor_instance
where due_at <= :now and $of_actors
order by due_at limit (select cast(:limit as integer)) $past_locks;

-- name: until_due
-- How long until the next instance is due.
select min(due_at) - :now from actor_instance where due_at is not null and $of_actors;

-- name: owners
-- Everybody who has an instance: from one to the next, however many each of them has and sleep beside them.
with recursive found (owner) as (
    select min(owner) from actor_instance where owner is not null
    union all
    select (select min(owner) from actor_instance where owner is not null and owner > found.owner)
    from found where found.owner is not null)
select owner from found where owner is not null;

-- name: owned_by
-- What one process has.
select $columns from actor_instance where owner = :owner and $of_actors order by inbox limit :limit $past_locks;

-- name: unheaded
-- Instances whose head came to its end by another hand, or is gone.
select $columns from actor_instance
left join message on message.id = actor_instance.head_id
where actor_instance.head_id is not null and (message.id is null or message.state in ('OK', 'ERR', 'DEAD'))
  and actor_instance.actor $among_actors
order by actor_instance.inbox limit :limit;

-- name: tied_children
-- Instances that run because one of these called them, and end with it.
select $columns from actor_instance
where parent $among_inboxes and is_tied = 1 and head_id is not null order by inbox $locked;

-- name: ask_abort
-- It fails as soon as its code returns. No row: it does not run.
update actor_instance set abort = coalesce(abort, :reason) where inbox = :inbox and phase = 'running'
returning owner;

-- name: aborted_of
-- What one process has and what is to fail when its code returns.
select inbox from actor_instance where owner = :owner and abort is not null;

-- name: forget_waits
-- These wait for nothing any more.
delete from actor_wait where inbox $among_inboxes;

-- name: waiting_for
-- Who waits for an answer to one of these.
select distinct inbox from actor_wait where question_id $among_questions and is_answered = 0 order by inbox;

-- name: note_answers
-- These questions have their answers.
update actor_wait set is_answered = 1 where question_id $among_questions and is_answered = 0;

-- name: satisfied
-- Which of these have as many answers as they need.
select actor_instance.inbox, actor_instance.head_id from actor_instance
where actor_instance.inbox $among_inboxes and actor_instance.phase = 'waiting' and actor_instance.needs <= (
    select count(*) from actor_wait where actor_wait.inbox = actor_instance.inbox and actor_wait.is_answered = 1);

-- name: wake_waiting
-- These have what they waited for.
update actor_instance set phase = 'ready', due_at = :now, needs = 0, moved_at = :now
where inbox $among_inboxes and phase = 'waiting';

-- name: wake_sleeping
-- It runs now and not when its time comes. No row: it does not sleep.
update actor_instance set phase = 'ready', due_at = :now, moved_at = :now
where inbox = :inbox and phase = 'sleeping'
returning inbox;

-- name: open_questions
-- Questions of waiting instances that nobody has answered and that will not be answered any more.
select actor_wait.question_id from actor_wait
left join message on message.id = actor_wait.question_id
where actor_wait.is_answered = 0 and (message.id is null or message.state in ('OK', 'ERR', 'DEAD'))
limit :limit;
