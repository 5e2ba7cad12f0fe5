-- name: trends
-- How many errors some groups had in each hour from one on.
select group_id, hour, cases from desk_trend where group_id $among_groups and hour >= :since;

-- name: forget_trends
-- Hours that nobody looks at any more.
delete from desk_trend
where (group_id, hour) in (select group_id, hour from desk_trend where hour < :before order by hour limit :limit);

-- name: forget_trends_of
-- What belonged to these groups is gone.
delete from desk_trend where group_id $among_groups;
