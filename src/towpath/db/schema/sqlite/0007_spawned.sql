-- Processes that spawner actors run: of each instance the one that lives, or the last one.

create table spawned (
    -- The inbox of the instance, and the inbox whose messages its processes work on.
    spawner     text    primary key check (substr(spawner, 1, 6) = 'actor:'),
    inbox       text    not null,
    -- The launch that may work. None: none may.
    launch_id   text,
    machine     text,
    pid         integer,
    -- Its process row, once it is in touch with the database.
    process_id  text,
    -- Whether it has asked for messages, and how many it has brought to their end.
    is_ready    integer not null default 0 check (is_ready in (0, 1)),
    done        integer not null default 0 check (done >= 0),
    -- What it works on, for the how manieth time, and how far it is.
    message_id  text,
    attempt     integer not null default 0 check (attempt >= 0),
    percent     real check (percent between 0 and 100),
    stage       text,
    -- Why it is to end; what makes it useless to start it again; how it came to its end.
    stop        text,
    fault       text,
    ended       text,
    launched_at integer not null,
    told_at     integer,
    ended_at    integer
) strict;
create unique index spawned_by_launch on spawned (launch_id) where launch_id is not null;
