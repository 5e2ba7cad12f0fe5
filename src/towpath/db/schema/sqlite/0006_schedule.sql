-- Schedules: actors that are started by the clock.

create table actor_schedule (
    name        text    primary key check (name <> ''),
    actor       text    not null check (actor <> ''),
    instance    text    not null check (instance <> ''),
    -- The state to start with, the first one if there is none, and its fields.
    step        text    check (step <> ''),
    payload     text    not null check (json_valid(payload)),
    kind        text    not null check (kind in ('interval', 'daily', 'window')),
    every_s     real    check (every_s between 1 and 31622400),
    since       text    check (since in ('made', 'run')),
    hour        integer check (hour between 0 and 23),
    minute      integer check (minute between 0 and 59),
    to_hour     integer check (to_hour between 0 and 24 and to_hour <> hour),
    zone        text    check (zone <> ''),
    is_enabled  integer not null default 1 check (is_enabled in (0, 1)),
    made_at     integer not null,
    next_at     integer,
    last_at     integer,
    -- The message that started the last run; how often it was due since then without one, and why.
    last_run    text,
    skipped     integer not null default 0 check (skipped >= 0),
    skip_reason text,
    constraint enabled_is_due_some_day check ((is_enabled = 1) = (next_at is not null)),
    constraint interval_is_whole check ((kind = 'interval') = (every_s is not null) and (kind = 'interval') = (since is not null)),
    constraint hours_have_a_zone check ((kind <> 'interval') = (hour is not null) and (kind <> 'interval') = (zone is not null)),
    constraint daily_has_a_minute check ((kind = 'daily') = (minute is not null)),
    constraint window_has_an_end check ((kind = 'window') = (to_hour is not null)),
    constraint run_has_a_time check ((last_at is null) = (last_run is null)),
    constraint skipped_for_a_reason check ((skipped = 0) = (skip_reason is null))
) strict;
create index actor_schedule_due on actor_schedule (next_at) where next_at is not null;

-- Instances at rest that a call has made: the janitor of actors deletes them some day.
create index actor_instance_at_rest on actor_instance (phase, moved_at) where parent is not null and head_id is null;
