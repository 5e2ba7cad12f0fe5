-- name: among_ids
-- Not a query: is one of the ids in the JSON array :ids.
in (select value from json_each(:ids));

-- name: set_edits
-- What goes out next of cases that this transaction has locked; of each row: id, edit.
update desk_case set edit = each.value ->> 1, moved_at = :now
from json_each(:rows) as each
where desk_case.id = each.value ->> 0;
