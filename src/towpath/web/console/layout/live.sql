-- name: marks
-- What has grown or moved since the last look, as one row; each number comes from the end of an index.
select
    (select coalesce(max(seq), 0) from event),
    (select coalesce(max(seq), 0) from message),
    (select coalesce(max(seq), 0) from desk_case),
    (select coalesce(max(seq), 0) from desk_history);

-- name: kinds
-- Of what has happened since an event, for as many as a look takes.
select distinct kind from (select kind from event where seq > :seq order by seq limit :limit) as newest;
