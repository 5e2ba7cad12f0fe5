-- name: count_phases
-- How many instances each actor has in each phase.
select actor, phase, count(*) from actor_instance group by actor, phase order by actor, phase;

-- name: children
-- Instances whose run another one began, the latest first.
select $columns from actor_instance where parent = :parent order by moved_at desc, inbox limit :limit;

-- name: waits
-- What an instance waits for: of each question whether it is answered, where it is, and how.
select actor_wait.question_id, actor_wait.is_answered, message.inbox, message.state from actor_wait
left join message on message.id = actor_wait.question_id
where actor_wait.inbox = :inbox order by actor_wait.is_answered, actor_wait.question_id limit :limit;

-- name: watches_in_vain
-- Not a query: it only looks whether something has come, and nothing has.
exists (
    select 1 from $watchers as watcher
    where watcher.actor = actor_instance.actor and watcher.step = actor_instance.step and not exists (
        select 1 from message where message.inbox = watcher.inbox and message.state = 'NEW'
                                and coalesce(message.deliver_after, 0) <= :now + :within_us));

-- name: is_busy
-- Whether some actors have anything to do in the next :within_us: in one statement, so that nothing slips between.
select 1 where exists (
    select 1 from actor_instance
    where actor $among_actors and (phase in ('ready', 'running') or due_at <= :now + :within_us)
      and not (phase = 'sleeping' and $watches_in_vain))
  or exists (
    select 1 from message
    where state = 'NEW' and deliver_after is null and substr(inbox, 1, 6) = 'actor:'
      and exists (
        select 1 from actor_instance
        where inbox = replace(message.inbox, '//reply', '') and actor $among_actors));
