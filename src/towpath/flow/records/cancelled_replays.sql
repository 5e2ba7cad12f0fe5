-- name: recall
-- What was sent of a case under a ticket is not to be taken.
insert into flow_recalled (flow, correlation, ticket, recalled_at) values (:flow, :correlation, :ticket, :now)
on conflict do nothing;

-- name: recalled
-- All that was called back of a flow.
select correlation, ticket from flow_recalled where flow = :flow;
