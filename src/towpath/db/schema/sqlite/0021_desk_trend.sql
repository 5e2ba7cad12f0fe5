-- How many errors came to a group in each of the last hours: a list of groups shows where that goes without counting cases.

create table desk_trend (
    group_id integer not null,
    -- Since 1970.
    hour     integer not null check (hour >= 0),
    cases    integer not null check (cases >= 0),
    primary key (group_id, hour)
) strict, without rowid;
create index desk_trend_by_hour on desk_trend (hour);
