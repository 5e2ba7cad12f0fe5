-- name: columns
-- Not a query: the columns of a session, in the order of `Session`.
access_session.id, access_session.user_name, access_session.address, access_session.browser, access_session.made_at,
access_session.seen_at, access_session.expires_at;

-- name: add_session
-- Somebody has logged in.
insert into access_session (hash, id, user_name, address, browser, made_at, seen_at, expires_at)
values (:hash, :id, :user_name, :address, :browser, :now, :now, :expires_at)
returning $columns;

-- name: session_with_user
-- The session of what a browser holds, with its user.
select $columns, access_user.role, access_user.disabled_at
from access_session join access_user on access_user.name = access_session.user_name
where access_session.hash = :hash;

-- name: note_seen
-- It is used: it ends later. Not more often than by the minute.
update access_session set seen_at = :now, expires_at = :expires_at where id = :id and seen_at < :not_since;

-- name: list_sessions
-- Sessions of a user that count, newest first.
select $columns from access_session where user_name = :user_name and expires_at > :now order by made_at desc limit :limit;

-- name: end_session
-- Somebody has logged out, or was logged out.
delete from access_session where id = :id;

-- name: end_sessions_of_user
-- End all sessions of a user.
delete from access_session where user_name = :user_name;

-- name: forget_sessions
-- Delete some sessions that have ended.
delete from access_session where hash in
(select hash from access_session where expires_at < :now order by expires_at limit :limit);

-- name: add_link
-- A link that lets a user in once.
insert into access_link (hash, user_name, made_by, made_at, expires_at)
values (:hash, :user_name, :made_by, :now, :expires_at);

-- name: link_user
-- Whom a link lets in, while it does.
select user_name from access_link where hash = :hash and used_at is null and expires_at > :now;

-- name: use_link
-- A link is used up. No row: it was before, or its time is over.
update access_link set used_at = :now where hash = :hash and used_at is null and expires_at > :now
returning user_name;

-- name: void_links
-- Links of a user that were not used open nothing any more.
update access_link set used_at = :now where user_name = :user_name and used_at is null;

-- name: forget_links
-- Delete some links that have ended.
delete from access_link where hash in
(select hash from access_link where expires_at < :now order by expires_at limit :limit);

-- name: save_view
-- Keep the address of a page under a name; another one of that name is replaced.
insert into access_view (user_name, name, address, made_at) values (:user_name, :name, :address, :now)
on conflict (user_name, name) do update set address = excluded.address, made_at = excluded.made_at;

-- name: list_views
-- What a user wants to see again, by name.
select name, address from access_view where user_name = :user_name order by name limit :limit;

-- name: count_views
-- How many a user has.
select count(*) from access_view where user_name = :user_name and name <> :name;

-- name: delete_view
-- A user does not want to see it again. No row: there is none of that name.
delete from access_view where user_name = :user_name and name = :name returning name;
