-- name: add_evidence
-- Counts on top of those that are there; of each row: field, aspect, deciders, given, value, taken, edited.
insert into desk_evidence (flow, field, aspect, deciders, given, value, taken, edited, moved_at)
select :flow, each.value ->> 0, each.value ->> 1, each.value ->> 2, each.value ->> 3, each.value ->> 4,
       (each.value ->> 5)::bigint, (each.value ->> 6)::bigint, :now
from json_array_elements(:rows::json) as each (value)
on conflict (flow, field, aspect, deciders, given, value)
do update set taken = desk_evidence.taken + excluded.taken, edited = desk_evidence.edited + excluded.edited,
    moved_at = excluded.moved_at;

-- name: rows_of
-- Not a query: flow, field, aspect, deciders, given and value of each row in the JSON array :rows.
select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5
from json_array_elements(:rows::json) as each (value);
