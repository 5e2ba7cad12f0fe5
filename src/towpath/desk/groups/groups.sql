-- name: columns
-- Not a query: the columns of a group, in the order of `Group`.
id, flow, code, step, exception, title, state, archive, assignee, merged_into, seen, first_at, last_at, moved_at;

-- name: fingerprint_columns
-- Not a query: the columns of a fingerprint, in the order of `KnownFingerprint`.
flow, fingerprint, algorithm, group_id, made_of, made_at;

-- name: before
-- Not a query: what comes after another group on pages, without those that were merged into others.
merged_into is null and (last_at, id) < (:last_at, :id);

-- name: read_group
-- One group.
select $columns from desk_group where id = :id;

-- name: lock_group
-- One group, which nobody else changes until the transaction ends.
select $columns from desk_group where id = :id $locked;

-- name: lock_groups
-- Some groups in the order of their numbers, which nobody else changes until the transaction ends.
select $columns from desk_group where id $among_groups order by id $locked;

-- name: page_of_groups
-- One page of groups, the one with the newest error first.
select $columns from desk_group where $before order by last_at desc, id desc limit :limit;

-- name: page_of_groups_in_state
-- One page of groups in one state.
select $columns from desk_group where $before and state = :state order by last_at desc, id desc limit :limit;

-- name: page_of_groups_of_flow
-- One page of a flow's groups.
select $columns from desk_group where $before and flow = :flow order by last_at desc, id desc limit :limit;

-- name: page_of_groups_of_flow_in_state
-- One page of a flow's groups in one state.
select $columns from desk_group where $before and flow = :flow and state = :state
order by last_at desc, id desc limit :limit;

-- name: found_groups
-- One page of groups that are looked for by what they say.
select $columns from desk_group
where $before and flow = coalesce(:flow, flow) and state = coalesce(:state, state) and code = coalesce(:code, code)
  and $says
order by last_at desc, id desc limit :limit;

-- name: with_merged
-- A group and all that were merged into it.
select :id union all select id from desk_group where merged_into = :id;

-- name: merged_into
-- What was merged into some groups.
select merged_into, id from desk_group where merged_into $among_groups;

-- name: that_may_hold
-- Groups with errors of a kind: by what they are made for, or by a fingerprint that leads to them.
select id from desk_group
where flow = coalesce(:flow, flow) and code = coalesce(:code, code) and step = coalesce(:step, step)
  and exception = coalesce(:exception, exception)
union
select group_id from desk_fingerprint
where flow = coalesce(:flow, flow) and $made_of_code = coalesce(:code, $made_of_code)
  and made_of ->> 'step' = coalesce(:step, made_of ->> 'step')
  and made_of ->> 'exception' = coalesce(:exception, made_of ->> 'exception')
limit :limit;

-- name: make_group
-- A new group.
insert into desk_group (flow, code, step, exception, title, state, first_at, last_at, moved_at)
values (:flow, :code, :step, :exception, :title, :state, :at, :at, :now)
returning $columns;

-- name: known_fingerprints
-- Where errors of some fingerprints go.
select fingerprint, group_id from desk_fingerprint where flow = :flow and fingerprint $among_fingerprints;

-- name: fingerprints_of
-- What leads to some groups.
select $fingerprint_columns from desk_fingerprint where group_id $among_groups order by made_at, fingerprint;

-- name: point_fingerprints
-- Errors of some fingerprints go to another group from now on.
update desk_fingerprint set group_id = :group where flow = :flow and fingerprint $among_fingerprints
returning fingerprint;

-- name: point_all
-- All that led to one group leads to another.
update desk_fingerprint set group_id = :group where group_id = :from_group;

-- name: merge_group
-- A group counts as part of another. No row: it is merged already, or the other is.
update desk_group set merged_into = :into, moved_at = :now
where id = :id and merged_into is null
  and exists (select 1 from desk_group as other where other.id = :into and other.merged_into is null)
returning id;

-- name: carry_along
-- What was merged into a group goes with it.
update desk_group set merged_into = :into where merged_into = :id;

-- name: unmerge_group
-- A group is its own again. No row: it was.
update desk_group set merged_into = null, moved_at = :now where id = :id and merged_into is not null
returning $columns;

-- name: move_group
-- A group goes to a state. No row: not from the one it is in.
update desk_group set state = :to, archive = :archive, moved_at = :now where id = :id and state $among_states
returning $columns;

-- name: group_assign
-- Somebody is to look at it, or nobody in particular.
update desk_group set assignee = :assignee, moved_at = :now where id = :id
returning $columns;
