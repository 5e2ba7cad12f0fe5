-- name: columns
-- Not a query: the columns of a rule, in the order of `Block`.
number, action, stream, topic, sender, user_name, record_key, key_prefix, expression, $state, approved_by, made_by, why,
made_at, ends_at, withdrawn_at, withdrawn_by, withdrawn_why, caught, caught_at;

-- name: state
-- Not a query: whether a rule counts. Nobody has to come by for it to end.
case when withdrawn_at is not null then 'withdrawn' when ends_at <= :now then 'ended' else 'active' end;

-- name: counts
-- Not a query: it counts now.
withdrawn_at is null and ends_at > :now;

-- name: add_rule
-- A new rule, which counts at once.
insert into block_rule (action, stream, topic, sender, user_name, record_key, key_prefix, expression, approved_by,
                        made_by, why, made_at, ends_at)
values (:action, :stream, :topic, :sender, :user_name, :record_key, :key_prefix, :expression, :approved_by, :made_by,
        :why, :now, :ends_at)
returning $columns;

-- name: read_rule
-- One rule.
select $columns from block_rule where number = :number;

-- name: list_rules
-- One page, the newest first.
select $columns from block_rule
where number < coalesce(:before, 9223372036854775807) and $state = coalesce(:state, $state)
order by number desc limit :limit;

-- name: rules_in_force
-- Those that count now, in the order in which they are asked.
select $columns from block_rule where $counts order by number limit :limit;

-- name: count_in_force
-- How many count now.
select count(*) from block_rule where $counts;

-- name: withdraw_rule
-- It does not count any more. No row: it did not.
update block_rule set withdrawn_at = :now, withdrawn_by = :who, withdrawn_why = :why
where number = :number and $counts
returning $columns;

-- name: note_caught
-- It has caught so many more.
update block_rule set caught = caught + :count, caught_at = :now where number = :number;

-- name: forget_rules
-- Delete some that have not counted for long.
delete from block_rule where number in
(select number from block_rule where coalesce(withdrawn_at, ends_at) < :older_than
 order by coalesce(withdrawn_at, ends_at) limit :limit);
