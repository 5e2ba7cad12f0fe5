-- name: own_tables
-- The tables of the file; what each of them takes is known of all together only.
select name, 0 from sqlite_master where type = 'table' order by name;
