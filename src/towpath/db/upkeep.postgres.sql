-- name: own_tables
-- The tables of the schema, each with the room that it and all that belongs to it takes.
select relname, pg_total_relation_size(oid)::bigint from pg_class
where relnamespace = current_schema()::regnamespace and relkind = 'r' order by relname;
