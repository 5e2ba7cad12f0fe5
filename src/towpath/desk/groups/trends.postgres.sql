-- name: among_groups
-- Not a query: is one of the numbers in the JSON array :groups.
= any (array (select json_array_elements_text(:groups::json)::bigint));

-- name: add_to_trends
-- Errors have come to groups; of each row: group, hour, how many.
insert into desk_trend (group_id, hour, cases)
select (value ->> 0)::bigint, (value ->> 1)::integer, (value ->> 2)::bigint from json_array_elements(:rows::json)
on conflict (group_id, hour) do update set cases = desk_trend.cases + excluded.cases;
