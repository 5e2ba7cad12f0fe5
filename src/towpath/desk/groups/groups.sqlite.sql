-- name: among_groups
-- Not a query: is one of the numbers in the JSON array :groups.
in (select value from json_each(:groups));

-- name: among_states
-- Not a query: is one of the texts in the JSON array :states.
in (select value from json_each(:states));

-- name: among_fingerprints
-- Not a query: is one of the texts in the JSON array :fingerprints.
in (select value from json_each(:fingerprints));

-- name: says
-- Not a query: title, exception or step hold :text, if that is given.
(:text is null or instr(lower(title || char(10) || exception || char(10) || step), lower(:text)) > 0);

-- name: locked
-- Not a query: nothing, since there is one writer at a time.
;

-- name: made_of_code
-- Not a query: the code in what a fingerprint was made of.
cast(made_of ->> 'code' as integer);

-- name: see_groups
-- Errors have come; of each row: group, cases, the first and the last time, state, until when it is archived.
update desk_group
set seen = seen + (each.value ->> 1), first_at = min(first_at, each.value ->> 2),
    last_at = max(last_at, each.value ->> 3), state = each.value ->> 4, archive = each.value ->> 5,
    moved_at = case when state = each.value ->> 4 then moved_at else :now end
from json_each(:rows) as each
where desk_group.id = each.value ->> 0;

-- name: make_groups
-- New groups; of each row: code, step, exception, title. Their numbers rise in the order of the rows.
insert into desk_group (flow, code, step, exception, title, state, first_at, last_at, moved_at)
select :flow, value ->> 0, value ->> 1, value ->> 2, value ->> 3, :state, :at, :at, :now
from json_each(:rows) order by key
returning id;

-- name: add_fingerprints
-- Errors of fingerprints go to groups; of each row: fingerprint, algorithm, group, made of. No row: another was faster.
insert into desk_fingerprint (flow, fingerprint, algorithm, group_id, made_of, made_at)
select :flow, value ->> 0, value ->> 1, value ->> 2, value -> 3, :now from json_each(:rows) where true
on conflict (flow, fingerprint) do nothing
returning group_id;
