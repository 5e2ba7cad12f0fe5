-- name: among_ids
-- Not a query: is one of the ids in the JSON array :ids.
in (select value from json_each(:ids));

-- name: keep_traces
-- Traces that are needed, written down if they are not there yet; of each row: id, text.
insert into desk_trace (id, trace, seen_at) select value ->> 0, value ->> 1, :now from json_each(:rows) where true
on conflict (id) do update set seen_at = excluded.seen_at where desk_trace.seen_at < excluded.seen_at - 3600000000;

-- name: set_headers
-- What some cases go back with from now on; of each row: id, headers.
update desk_body set headers = each.value ->> 1 from json_each(:rows) as each where desk_body.case_id = each.value ->> 0;
