-- Functions for the tests' databases: each is copied with the template, and resets the database it is called in.
create schema towpath_test;

-- What the migrations have inserted: the only rows of an empty database.
do $$
declare
    name text;
    is_filled boolean;
begin
    for name in select relname from pg_class where relnamespace = 'towpath'::regnamespace and relkind = 'r' loop
        execute format('select exists (select from towpath.%I)', name) into is_filled;
        if is_filled then
            execute format('create table towpath_test.%1$I as table towpath.%1$I', name);
        end if;
    end loop;
end $$;

-- Ends every other connection, and waits until they are gone.
create function towpath_test.end_others() returns void language sql as $$
    select pg_terminate_backend(pid, 10000) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid();
$$;

-- Tables, columns, constraints, triggers, functions, settings and statistics: what `reset` does not bring back.
create function towpath_test.shape() returns text language sql as $$
    with own as (
        select oid, nspname from pg_namespace where nspname not like 'pg\_%' and nspname <> 'information_schema'
    ), lines as (
        select concat_ws(' ', 'relation', nspname, relname, relkind, relhastriggers, relrowsecurity, reloptions) as line
        from pg_class join own on own.oid = relnamespace
        union all
        select concat_ws(' ', 'column', relname, attname, attnum, atttypid, attnotnull, atthasdef, attisdropped)
        from pg_attribute join pg_class on pg_class.oid = attrelid join own on own.oid = relnamespace where attnum > 0
        union all
        select concat_ws(' ', 'constraint', conrelid::regclass, conname, convalidated)
        from pg_constraint join own on own.oid = connamespace
        union all
        select concat_ws(' ', 'trigger', relname, tgname, tgenabled)
        from pg_trigger join pg_class on pg_class.oid = tgrelid where not tgisinternal
        union all
        select concat_ws(' ', 'function', nspname, proname, md5(prosrc)) from pg_proc join own on own.oid = pronamespace
        union all
        select concat_ws(' ', 'index', indexrelid::regclass, indisvalid, indisready)
        from pg_index join pg_class on pg_class.oid = indexrelid join own on own.oid = relnamespace
        union all
        select concat_ws(' ', 'statistics', starelid::regclass, staattnum)
        from pg_statistic join pg_class on pg_class.oid = starelid join own on own.oid = relnamespace
        union all
        select concat_ws(' ', 'setting', setrole, setconfig) from pg_db_role_setting
        join pg_database on pg_database.oid = setdatabase where datname = current_database()
    )
    select md5(string_agg(line, E'\n' order by line)) from lines;
$$;

-- Only what has been written to is emptied: to truncate a table makes its files and those of its indexes anew.
create function towpath_test.reset() returns void language plpgsql as $$
declare
    filled text;
    name text;
begin
    select string_agg(format('towpath.%I', relname), ', ') into filled from pg_class
    where relnamespace = 'towpath'::regnamespace and relkind = 'r' and pg_relation_size(oid) > 0
      and to_regclass(format('towpath_test.%I', relname)) is null;
    if filled is not null then
        execute 'truncate ' || filled || ' cascade';
    end if;
    for name in select relname from pg_class where relnamespace = 'towpath_test'::regnamespace and relkind = 'r' loop
        execute format('delete from towpath.%I', name);
        execute format('insert into towpath.%1$I overriding system value table towpath_test.%1$I', name);
    end loop;
    perform setval(format('towpath.%I', sequencename)::regclass, 1, false) from pg_sequences
    where schemaname = 'towpath' and last_value is not null;
end $$;
