-- name: columns
-- Not a query: the columns of a rule, in the order of `_rule`.
id, flow, field, kind, deciders, state, support, confidence, was_right, was_wrong;

-- name: add_rule
-- A rule that was found. No row: it was found before.
insert into desk_rule (flow, field, kind, deciders, state, support, confidence, made_at, moved_at)
values (:flow, :field, :kind, :deciders, 'suggested', :support, :confidence, :now, :now)
on conflict do nothing
returning id;

-- name: read_rule
-- One rule.
select $columns from desk_rule where id = :id;

-- name: list_rules
-- The rules of a flow, or of all flows, in the order in which they were found.
select $columns from desk_rule
where (cast(:flow as text) is null or flow = :flow) and (cast(:state as text) is null or state = :state)
order by id;

-- name: move_rule
-- Another state for a rule. What it did before it was turned on is not held against it.
-- No row: it is in none from which that is allowed.
update desk_rule
set state = :to, who = :who, why = :why, moved_at = :now, support = coalesce(cast(:support as integer), support),
    confidence = coalesce(cast(:confidence as double precision), confidence),
    was_right = case when :to = 'on' then 0 else was_right end, was_wrong = case when :to = 'on' then 0 else was_wrong end
where id = :id and state $among_states
returning $columns;

-- name: judge_rule
-- What it did was right so often, and wrong so often.
update desk_rule set was_right = was_right + :was_right, was_wrong = was_wrong + :was_wrong where id = :id;

-- name: version
-- Changes whenever a rule or what speaks for it does.
select (select coalesce(max(moved_at), 0) from desk_rule where flow = :flow),
       (select coalesce(sum(was_right + was_wrong), 0) from desk_rule where flow = :flow),
       (select coalesce(max(moved_at), 0) from desk_learning where flow = :flow),
       (select count(*) from desk_rule where flow = :flow);
