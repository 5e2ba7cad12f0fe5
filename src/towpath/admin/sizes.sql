-- name: count_messages
-- Messages, up to a number.
select count(*) from (select 1 from message limit :most) as found;

-- name: count_events
-- Events, up to a number.
select count(*) from (select 1 from event limit :most) as found;

-- name: count_cases
-- Cases of the desk, up to a number.
select count(*) from (select 1 from desk_case limit :most) as found;

-- name: count_audit
-- Rows of the trail, up to a number.
select count(*) from (select 1 from access_audit limit :most) as found;

-- name: count_complaints
-- Complaints, up to a number.
select count(*) from (select 1 from complaint limit :most) as found;

-- name: count_data_sets
-- Data sets, up to a number.
select count(*) from (select 1 from data_set limit :most) as found;
