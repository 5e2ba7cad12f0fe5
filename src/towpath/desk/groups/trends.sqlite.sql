-- name: among_groups
-- Not a query: is one of the numbers in the JSON array :groups.
in (select value from json_each(:groups));

-- name: add_to_trends
-- Errors have come to groups; of each row: group, hour, how many.
insert into desk_trend (group_id, hour, cases)
select value ->> 0, value ->> 1, value ->> 2 from json_each(:rows) where true
on conflict (group_id, hour) do update set cases = desk_trend.cases + excluded.cases;
