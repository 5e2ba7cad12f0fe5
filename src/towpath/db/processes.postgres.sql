-- name: living
-- Which of these processes are alive.
select id from process where state = 'alive' and id in (select json_array_elements_text(:ids::json));
