-- name: among_ids
-- Not a query: is one of the ids in the JSON array :ids.
= any (array (select json_array_elements_text(:ids::json)::uuid));

-- name: set_edits
-- What goes out next of cases that this transaction has locked; of each row: id, edit.
update desk_case set edit = (each.value ->> 1)::integer, moved_at = :now
from json_array_elements(:rows::json) as each (value)
where desk_case.id = any (array (select (json_array_elements(:rows::json) ->> 0)::uuid))
  and desk_case.id = (each.value ->> 0)::uuid;
