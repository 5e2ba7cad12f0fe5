-- name: register_inbox
-- Make an inbox known, or change what its readers say about the death of an owner.
insert into inbox (name, on_owner_death, max_attempts, created_at) values (:name, :on_owner_death, :max_attempts, :now)
on conflict (name) do update set on_owner_death = excluded.on_owner_death, max_attempts = excluded.max_attempts;

-- name: register_reply_inbox
-- Make the inbox for answers known. It is left alone when it is there: an update would lock it for every other sender.
insert into inbox (name, on_owner_death, max_attempts, created_at) values (:name, 'again', 1, :now)
on conflict (name) do nothing;

-- name: inbox_names
-- Every inbox there is.
select name from inbox order by name;

-- name: is_inbox
-- Whether somebody has registered the name.
select 1 from inbox where name = :name;
