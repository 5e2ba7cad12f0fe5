-- name: columns
-- Not a query: the columns of a user, in the order of `User`.
name, role, password, disabled_at, made_at, password_at;

-- name: add_user
-- A new user. No row: there is one of that name.
insert into access_user (name, role, password, made_at, password_at)
values (:name, :role, :password, :now, case when :has_password = 1 then :now end)
on conflict (name) do nothing
returning $columns;

-- name: read_user
-- One user.
select $columns from access_user where name = :name;

-- name: list_users
-- All users, by name.
select $columns from access_user order by name;

-- name: lock_admins
-- Every admin who is enabled; on PostgreSQL nobody else changes these until this transaction ends.
select name from access_user where role = 'admin' and disabled_at is null order by name $locked;

-- name: set_role
-- Give a user another role. No row: there is no such user.
update access_user set role = :role where name = :name returning $columns;

-- name: set_password
-- Give a user a new password. No row: there is no such user.
update access_user set password = :password, password_at = :now where name = :name returning $columns;

-- name: disable_user
-- A user may not use anything from now on. No row: there is no such user.
update access_user set disabled_at = coalesce(disabled_at, :now) where name = :name returning $columns;

-- name: enable_user
-- A user may use Towpath again. No row: there is no such user.
update access_user set disabled_at = null where name = :name returning $columns;
