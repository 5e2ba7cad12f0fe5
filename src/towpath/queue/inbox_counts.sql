-- name: count_inboxes
-- Inboxes by name with what they hold, each state counted up to :most and no further; of what waits, the first in turn.
-- What is done is counted apart: no index has it. Each is counted in the order of its index, or a planner might think
-- it quicker to look for the first ones among all messages.
select name, on_owner_death, max_attempts,
    (select count(*) from (
        select 1 from message where message.inbox = inbox.name and state = 'NEW' and deliver_after is null
        order by $in_turn limit :most) as ready),
    (select count(*) from (
        select 1 from message where message.inbox = inbox.name and state = 'NEW' and deliver_after is not null
        order by deliver_after limit :most) as due),
    (select count(*) from (
        select 1 from message where message.inbox = inbox.name and state = 'ACK' and deliver_after is null
        order by $in_turn limit :most) as claimed),
    (select count(*) from (
        select 1 from message where message.inbox = inbox.name and state = 'ERR'
        order by $in_turn limit :most) as failed),
    (select count(*) from (
        select 1 from message where message.inbox = inbox.name and state = 'DEAD'
        order by $in_turn limit :most) as dead),
    (select created_at from message where message.inbox = inbox.name and state = 'NEW' and deliver_after is null
     order by $in_turn limit 1),
    (select created_at from message where message.inbox = inbox.name and state = 'NEW' and deliver_after is not null
     order by deliver_after limit 1)
from inbox
where name > :after and (cast(:of_actors as integer) is null or (substr(name, 1, 6) = 'actor:') = (:of_actors = 1))
order by name limit :limit;

-- name: count_done
-- The newest messages by inbox: how many they are, and how many of them are done.
select inbox, count(*), sum(case when state = 'OK' then 1 else 0 end)
from (select inbox, state from message order by seq desc limit :most) as newest
group by inbox;

-- name: counts_of_inbox
-- All messages of one inbox by state, to the last one: it reads them all.
select state, count(*) from message where inbox = :inbox group by state;
