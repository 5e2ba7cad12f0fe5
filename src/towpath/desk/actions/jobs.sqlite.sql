-- name: locked
-- Not a query: nothing, since there is one writer at a time.
;

-- name: starts_with
-- Not a query: the id begins with :text.
substr(id, 1, length(:text)) = :text;

-- name: among_states
-- Not a query: is one of the texts in the JSON array :states.
in (select value from json_each(:states));

-- name: items_refused
-- These items cannot be done; of each row: its number, and why.
update desk_job_item set state = 'refused', said = each.value ->> 1, done_at = :now
from json_each(:rows) as each
where desk_job_item.job_id = :job and desk_job_item.state = 'waiting' and desk_job_item.number = each.value ->> 0;
