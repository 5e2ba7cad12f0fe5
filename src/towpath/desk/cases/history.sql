-- name: columns
-- Not a query: the columns of an entry.
seq, what, who, why, data, at;

-- name: add_same
-- One thing was done to each of some cases.
insert into desk_history (case_id, what, who, why, data, at)
select $each_id, :what, :who, :why, $data, :now from $ids;

-- name: history_of_case
-- What was done to a case, oldest first.
select $columns from desk_history where case_id = :case order by seq;

-- name: history_of_group
-- What was done to a group, newest first.
select $columns from desk_history where group_id = :group order by seq desc limit :limit;
