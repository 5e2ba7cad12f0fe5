-- name: columns
-- Not a query: the columns of a result, in the order of `StoredResult`.
upload, query, kind, state, stages, columns, ends_at, rows, bytes, cursor, acknowledged_at, is_acknowledged;

-- name: declare_result
-- An upload has this query. No row: it is known.
insert into upload_result (upload, query, kind, state, stages, columns)
values (:upload, :query, :kind, 'open', :stages, :columns)
on conflict (upload, query) do nothing;

-- name: undeclared
-- Uploads whose queries are not declared yet; the oldest first.
select u.id, u.stream from upload as u
where u.stream in ($streams) and u.state in ('receiving', 'closing')
  and not exists (select 1 from upload_result as r where r.upload = u.id)
order by u.seq limit :limit;

-- name: results_of_upload
-- The queries of an upload.
select $columns from upload_result where upload = :upload order by query;

-- name: complete_result
-- All rows are there. No row: that is known.
update upload_result set state = 'complete', ends_at = :ends_at, rows = :rows, bytes = :bytes
where upload = :upload and query = :query and state = 'open'
returning query;

-- name: acknowledge_result
-- The client has all rows up to there. No row: it has acknowledged something else meanwhile.
update upload_result set cursor = :cursor, acknowledged_at = :now,
    is_acknowledged = case when :is_end = 1 then 1 else is_acknowledged end
where upload = :upload and query = :query and coalesce(cursor, '') = :before
returning query;

-- name: not_received
-- Queries of which more may come, or that the client does not have whole.
select query from upload_result where upload = :upload and (state = 'open' or is_acknowledged = 0);
