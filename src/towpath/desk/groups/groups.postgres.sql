-- name: among_groups
-- Not a query: is one of the numbers in the JSON array :groups.
= any (array (select json_array_elements_text(:groups::json)::bigint));

-- name: among_states
-- Not a query: is one of the texts in the JSON array :states.
= any (array (select json_array_elements_text(:states::json)));

-- name: among_fingerprints
-- Not a query: is one of the texts in the JSON array :fingerprints.
= any (array (select json_array_elements_text(:fingerprints::json)));

-- name: says
-- Not a query: title, exception or step hold :text, if that is given.
(:text::text is null or strpos(lower(title || chr(10) || exception || chr(10) || step), lower(:text::text)) > 0);

-- name: locked
-- Not a query: nobody else may change these rows until the transaction ends.
for update;

-- name: made_of_code
-- Not a query: the code in what a fingerprint was made of.
(made_of ->> 'code')::integer;

-- name: see_groups
-- Errors have come; of each row: group, cases, the first and the last time, state, until when it is archived.
update desk_group
set seen = seen + (each.value ->> 1)::bigint, first_at = least(first_at, (each.value ->> 2)::bigint),
    last_at = greatest(last_at, (each.value ->> 3)::bigint), state = each.value ->> 4, archive = (each.value ->> 5)::json,
    moved_at = case when state = each.value ->> 4 then moved_at else :now end
from json_array_elements(:rows::json) as each (value)
where desk_group.id = (each.value ->> 0)::bigint;

-- name: make_groups
-- New groups; of each row: code, step, exception, title. Their numbers rise in the order of the rows.
insert into desk_group (flow, code, step, exception, title, state, first_at, last_at, moved_at)
select :flow, (each.value ->> 0)::integer, each.value ->> 1, each.value ->> 2, each.value ->> 3, :state, :at, :at, :now
from json_array_elements(:rows::json) with ordinality as each (value, number) order by each.number
returning id;

-- name: add_fingerprints
-- Errors of fingerprints go to groups; of each row: fingerprint, algorithm, group, made of. No row: another was faster.
insert into desk_fingerprint (flow, fingerprint, algorithm, group_id, made_of, made_at)
select :flow, value ->> 0, (value ->> 1)::integer, (value ->> 2)::bigint, value -> 3, :now
from json_array_elements(:rows::json)
on conflict (flow, fingerprint) do nothing
returning group_id;
