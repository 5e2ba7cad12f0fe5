-- name: columns
-- Not a query: the columns of an edit, in the order of `Edit`.
case_id, edit, value, state, who, why, made_at, decided_by, decided_at;

-- name: add_edit
-- A changed body of a case, under the next number. No row: somebody else has made that number in the meantime.
insert into desk_edit (case_id, edit, value, state, who, why, made_at, decided_by, decided_at)
values (:case, :edit, :value, :state, :who, :why, :now, :decided_by,
        case when cast(:is_decided as integer) = 1 then :now end)
on conflict do nothing
returning $columns;

-- name: last_edit
-- The highest number among the edits of a case, 0 if it has none.
select coalesce(max(edit), 0) from desk_edit where case_id = :case;

-- name: list_edits
-- All edits of a case, oldest first.
select $columns from desk_edit where case_id = :case order by edit;

-- name: read_edit
-- One edit of a case.
select $columns from desk_edit where case_id = :case and edit = :edit;

-- name: decide_edit
-- A proposed edit is decided. No row: it was decided before.
update desk_edit set state = :to, decided_by = :who, decided_at = :now
where case_id = :case and edit = :edit and state = 'proposed'
returning $columns;

-- name: overtake_edits
-- What was proposed for a case and not decided is overtaken.
update desk_edit set state = 'overtaken', decided_by = :who, decided_at = :now
where case_id = :case and state = 'proposed' and edit <> :edit;

-- name: proposed_among
-- Those of some cases of which an edit waits for a second person, with the newest of those.
select case_id, max(edit) from desk_edit where case_id $among_ids and state = 'proposed' group by case_id;
