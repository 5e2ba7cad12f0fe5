-- name: locked
-- Not a query: nobody else may change these rows until the transaction ends.
for update;

-- name: starts_with
-- Not a query: the id begins with :text.
starts_with(id::text, :text);

-- name: among_states
-- Not a query: is one of the texts in the JSON array :states.
= any (array (select json_array_elements_text(:states::json)));

-- name: items_refused
-- These items cannot be done; of each row: its number, and why.
update desk_job_item set state = 'refused', said = each.value ->> 1, done_at = :now
from json_array_elements(:rows::json) as each (value)
where desk_job_item.job_id = :job and desk_job_item.state = 'waiting'
  and desk_job_item.number = (each.value ->> 0)::bigint;
