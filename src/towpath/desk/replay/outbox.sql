-- name: take_numbers
-- The last of :count new numbers of a flow. Its row stays locked, so that numbers appear in their order.
insert into desk_relay (flow, last_seq) values (:flow, :count)
on conflict (flow) do update set last_seq = desk_relay.last_seq + excluded.last_seq
returning last_seq;

-- name: enqueue
-- What goes out of these cases, under the tickets that they have now.
-- They are found by their ids first: by flow and state all that is under way would be read, each time.
with wanted as materialized (
    select seq, flow, state, id, ticket, attempts, lane, due_at from desk_case where id $among_ids)
insert into desk_outbox (flow, seq, case_id, ticket, attempt, target, lane, due_at, who, why, made_at)
select flow, :before + row_number() over (order by seq), id, ticket, attempts + 1,
       case state when 'waiting' then 'lane' else :target end, lane, due_at, :who, :why, :now
from wanted where flow = :flow and state in ('waiting', 'replaying');

-- name: flows
-- The flows whose relay nobody has, or this process, and whose outbox holds something.
select flow from desk_relay as r
where (owner is null or owner = :owner) and exists (select 1 from desk_outbox as o where o.flow = r.flow)
order by flow;

-- name: owners
-- Who sends for flows.
select distinct owner from desk_relay where owner is not null;

-- name: claim_relay
-- This process sends for the flow from now on. No row: another does.
update desk_relay set owner = :owner where flow = :flow and (owner is null or owner = :owner)
returning flow;

-- name: free_relays_of
-- The flows of somebody who is gone are nobody's.
update desk_relay set owner = null where owner = :owner;

-- name: page
-- The next rows of a flow with what is needed of their cases.
select o.seq, o.case_id, o.ticket, o.attempt, o.target, o.lane, o.due_at, o.who, o.why,
       c.ticket, c.state, c.stage, c.topic, c.key, c.body_bytes
from desk_outbox as o left join desk_case as c on c.id = o.case_id
where o.flow = :flow and o.seq > :after order by o.seq limit :limit;

-- name: rows_of_cases
-- What is still to be sent of some cases.
select o.seq, o.case_id, o.ticket, o.target from desk_outbox as o
where o.flow in (select c.flow from desk_case as c where c.id $among_ids) and o.case_id $among_ids;

-- name: resent
-- Of the rows up to a number, those that were to go to the source, and whose case still waits for that.
select o.case_id, o.who, o.why from desk_outbox as o join desk_case as c on c.id = o.case_id
where o.flow = :flow and o.seq <= :upto and o.target = 'source' and c.state = 'replaying' and c.ticket = o.ticket
order by o.seq;

-- name: delete_rows
-- What is in its topic, or was passed over.
delete from desk_outbox where flow = :flow and seq <= :upto;

-- name: count_rows
-- How much is to be sent for each flow.
select flow, count(*) from desk_outbox group by flow;
