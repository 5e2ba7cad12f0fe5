-- name: register_inbox
-- Make an inbox known, or change what its readers say about the death of an owner.
insert into inbox (name, on_owner_death, max_attempts, created_at) values (:name, :on_owner_death, :max_attempts, :now)
on conflict (name) do update set on_owner_death = excluded.on_owner_death, max_attempts = excluded.max_attempts;

-- name: inbox_names
-- Every inbox there is.
select name from inbox order by name;
