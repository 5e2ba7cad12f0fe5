-- name: columns
-- Not a query: the columns of a version, in the order of `Version`.
flow, origin, version, policies, who, why, made_at;

-- name: latest
-- The rules that count now, of one flow or of all.
select $columns from desk_policy as p
where flow = coalesce(:flow, flow)
  and version = (select max(version) from desk_policy as other where other.flow = p.flow and other.origin = p.origin)
order by flow, origin;

-- name: newest
-- The number of the newest version of each flow and origin: by these it is known whether anything has changed.
select flow, origin, max(version) from desk_policy group by flow, origin order by flow, origin;

-- name: versions
-- All versions of a flow's rules, the newest first.
select $columns from desk_policy where flow = :flow order by made_at desc, origin, version desc;

-- name: add_version
-- The next version. No row: another person was faster.
insert into desk_policy (flow, origin, version, policies, who, why, made_at)
select :flow, :origin, :version, :policies, :who, :why, :now
where :version = (select coalesce(max(version), 0) + 1 from desk_policy where flow = :flow and origin = :origin)
on conflict do nothing
returning $columns;

-- name: ignored_by
-- Some cases that these rules ignore.
select id from desk_case where flow = :flow and state = 'ignored' and rule in ($rules) order by seq limit :limit;

-- name: count_ignored_by
-- How many cases these rules ignore.
select count(*) from desk_case where flow = :flow and state = 'ignored' and rule in ($rules);
