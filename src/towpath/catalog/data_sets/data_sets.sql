-- name: columns
-- Not a query: the columns of a data set, in the order of `DataSet`.
data_set.seq, data_set.id, data_set.kind, data_set.subject, data_set.origin, data_set.place, data_set.state,
data_set.records, data_set.bytes, data_set.facts, data_set.reason, data_set.begun_at, data_set.ready_at,
data_set.deleted_at;

-- name: begin_data_set
-- Somebody makes it from now on. No row: it is there already.
insert into data_set (id, kind, subject, origin, place, state, begun_at)
values (:id, :kind, :subject, :origin, :place, 'making', :now)
on conflict (id) do nothing
returning $columns;

-- name: add_parent
-- It is made from that one. The state of the parent was looked at under its lock.
insert into data_set_parent (child_id, parent_id) values (:child, :parent)
on conflict (child_id, parent_id) do nothing;

-- name: read_data_set
-- One data set.
select $columns from data_set where id = :id;

-- name: lock_data_set
-- One data set, which nobody else changes until this transaction ends.
select $columns from data_set where id = :id $locked;

-- name: ready_at_place
-- The one that is ready there, which nobody else changes until this transaction ends.
select $columns from data_set where place = :place and state = 'ready' $locked;

-- name: finish_data_set
-- All of it is there.
update data_set set state = 'ready', records = :records, bytes = :bytes, facts = :facts, ready_at = :now
where id = :id and state = 'making'
returning $columns;

-- name: begin_deletion
-- Nobody may begin to use it.
update data_set set state = 'deleting', reason = :reason where id = :id and state in ('making', 'ready')
returning $columns;

-- name: end_deletion
-- Nothing of it is left.
update data_set set state = 'deleted', deleted_at = :now where id = :id and state = 'deleting'
returning $columns;

-- name: replace_data_set
-- Another one is in its place.
update data_set set state = 'deleted', reason = :reason, deleted_at = :now where id = :id and state = 'ready'
returning $columns;

-- name: users
-- What is being made from it.
select $columns from data_set join data_set_parent on data_set_parent.child_id = data_set.id
where data_set_parent.parent_id = :id and data_set.state = 'making' order by data_set.seq;

-- name: parents
-- What it was made from.
select $columns from data_set join data_set_parent on data_set_parent.parent_id = data_set.id
where data_set_parent.child_id = :id order by data_set.seq;

-- name: children
-- What was made from it.
select $columns from data_set join data_set_parent on data_set_parent.child_id = data_set.id
where data_set_parent.parent_id = :id order by data_set.seq;

-- name: list_data_sets
-- One page, the newest first.
select $columns from data_set
where seq < coalesce(:before, 9223372036854775807) and state = coalesce(:state, state)
order by seq desc limit :limit;

-- name: list_data_sets_of_kind
-- One page of a kind, the newest first.
select $columns from data_set
where kind = :kind and subject = coalesce(:subject, subject) and state = coalesce(:state, state)
  and seq < coalesce(:before, 9223372036854775807)
order by seq desc limit :limit;

-- name: unfinished_deletions
-- Whose deletion was begun, the oldest first.
select $columns from data_set where state = 'deleting' order by seq limit :limit;

-- name: forgettable
-- Deleted long ago, and nothing that is known was made from it.
select id from data_set
where state = 'deleted' and deleted_at < :before
  and not exists (select 1 from data_set_parent where parent_id = data_set.id)
order by deleted_at limit :limit;

-- name: forget_lineage
-- What it was made from.
delete from data_set_parent where child_id = :id;

-- name: forget_data_set
-- Nobody will ask for it any more.
delete from data_set where id = :id and state = 'deleted';
