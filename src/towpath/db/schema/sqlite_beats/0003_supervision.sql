-- What a process is, does and says of itself, and where it answers pings.

alter table process add column kind text not null default '';
alter table process add column version text not null default '';
-- The duty that it does, and the how manieth start of that it is; none when nobody has started it by duty.
alter table process add column duty text;
alter table process add column launch integer;
-- What it says of itself, and how far it is.
alter table process add column status text not null default '';
alter table process add column progress text check (progress is null or json_valid(progress));
-- Where it answers pings: host and port.
alter table process add column ping_address text;
alter table process add column ready_at integer;
