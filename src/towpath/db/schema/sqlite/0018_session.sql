-- Sessions of browsers, and links that let somebody in once to choose a password.

create table access_session (
    -- What the browser holds is kept nowhere: only what it hashes to.
    hash       text    primary key check (length(hash) = 64),
    -- By which people and the trail name it.
    id         text    not null unique check (length(id) = 36),
    user_name  text    not null references access_user (name),
    address    text    not null,
    browser    text    not null,
    made_at    integer not null,
    seen_at    integer not null,
    expires_at integer not null,
    constraint session_ends_after_it_was_made check (expires_at > made_at)
) strict, without rowid;
create index access_session_by_user on access_session (user_name, made_at);
create index access_session_by_end on access_session (expires_at);

create table access_link (
    hash       text    primary key check (length(hash) = 64),
    user_name  text    not null references access_user (name),
    made_by    text    not null check (made_by <> ''),
    made_at    integer not null,
    expires_at integer not null,
    used_at    integer,
    constraint link_ends_after_it_was_made check (expires_at > made_at)
) strict, without rowid;
create index access_link_by_user on access_link (user_name, made_at);
create index access_link_by_end on access_link (expires_at);

-- A list of what somebody wants to see again: the address of a page with its filters.
create table access_view (
    user_name text    not null references access_user (name),
    name      text    not null check (name <> '' and length(name) <= 80),
    address   text    not null check (substr(address, 1, 1) = '/' and length(address) <= 2000),
    made_at   integer not null,
    primary key (user_name, name)
) strict, without rowid;
