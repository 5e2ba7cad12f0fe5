-- name: living
-- Which of these processes are alive.
select id from process where state = 'alive' and id in (select value from json_each(:ids));
