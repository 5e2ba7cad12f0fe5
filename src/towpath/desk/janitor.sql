-- name: is_empty
-- Not a query: a group without cases, into which none was merged. Fingerprints of one that was lead elsewhere.
not exists (select 1 from desk_case where desk_case.group_id = desk_group.id)
and not exists (select 1 from desk_group as other where other.merged_into = desk_group.id);

-- name: old_groups
-- Some groups that have had no error for long.
select id from desk_group where last_at < :before and $is_empty order by last_at, id limit :limit;

-- name: lock_groups
-- Some groups in the order of their numbers, which nobody else changes until the transaction ends.
select id from desk_group where id $among_numbers order by id $locked;

-- name: empty_groups
-- Those of some groups of which it is still so.
select id from desk_group where id $among_numbers and last_at < :before and $is_empty;

-- name: forget_fingerprints
-- What led to these groups leads nowhere: the next such error makes a group.
delete from desk_fingerprint where group_id $among_numbers;

-- name: forget_tallies
-- What belonged to these groups is gone.
delete from desk_tally where group_id $among_numbers;

-- name: forget_group_history
-- What belonged to these groups is gone.
delete from desk_history where group_id $among_numbers;

-- name: forget_groups
-- These groups are gone.
delete from desk_group where id $among_numbers;

-- name: old_traces
-- Traces that intake has not needed for a while.
select id from desk_trace where seen_at < :before;

-- name: needed_traces
-- The traces of all attempts.
select distinct trace_id from desk_attempt where trace_id is not null;

-- name: forget_traces
-- Those of some traces that intake has not needed meanwhile.
delete from desk_trace where id $among_names and seen_at < :before;
