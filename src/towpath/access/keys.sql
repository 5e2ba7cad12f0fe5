-- name: columns
-- Not a query: the columns of a key, in the order of `Key`.
access_key.seq, access_key.id, access_key.prefix, access_key.hash, access_key.user_name, access_key.label,
access_key.scopes, access_key.made_by, access_key.made_at, access_key.expires_at, access_key.revoked_at,
access_key.revoked_by, access_key.used_at;

-- name: add_key
-- A new key.
insert into access_key (id, prefix, hash, user_name, label, scopes, made_by, made_at, expires_at)
values (:id, :prefix, :hash, :user_name, :label, :scopes, :made_by, :now, :expires_at)
returning $columns;

-- name: key_with_user
-- A key by how it begins, with its user.
select $columns, access_user.role, access_user.disabled_at
from access_key join access_user on access_user.name = access_key.user_name
where access_key.prefix = :prefix;

-- name: keys_beginning
-- Keys of that id, or that begin so; two are enough to see that it is not clear which.
select $columns from access_key where id = :id or substr(prefix, 1, :size) = :text order by seq limit 2;

-- name: list_keys
-- One page of keys, newest first.
select $columns from access_key
where seq < coalesce(:before, 9223372036854775807) order by seq desc limit :limit;

-- name: list_keys_of_user
-- One page of keys of one user, newest first.
select $columns from access_key
where user_name = :user_name and seq < coalesce(:before, 9223372036854775807) order by seq desc limit :limit;

-- name: revoke_key
-- A key opens nothing from now on. No row: it was revoked before.
update access_key set revoked_at = :now, revoked_by = :revoked_by where id = :id and revoked_at is null
returning $columns;

-- name: note_use
-- When a key was used last; not more often than by the minute.
update access_key set used_at = :now where id = :id and (used_at is null or used_at < :not_since);
