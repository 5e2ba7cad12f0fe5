-- Supervision: who coordinates, which processes have to run, how they died.

alter table process add column kind text not null default '';
alter table process add column version text not null default '';
-- The duty that it does, and the how manieth start of that it is; none when nobody has started it by duty.
alter table process add column duty text;
alter table process add column launch integer;
-- What it says of itself, and how far it is.
alter table process add column status text not null default '';
alter table process add column progress json;
-- Where it answers pings: host and port.
alter table process add column ping_address text;
alter table process add column ready_at bigint;

-- The lease under which one peer acts for all. Who takes it raises the term.
create table supervision_term (
    one         integer primary key check (one = 1),
    term        bigint  not null check (term >= 0),
    -- Process id and number of the peer that took it.
    holder      text,
    peer        integer,
    taken_at    bigint,
    lease_until bigint  not null,
    constraint taken_has_a_holder check ((term = 0) = (holder is null))
);
insert into supervision_term (one, term, lease_until) values (1, 0, 0);

create table duty (
    name         text    primary key check (name <> ''),
    kind         text    not null check (kind <> ''),
    -- The machine that it runs on, by its label.
    host         text    not null check (host <> ''),
    spec         json    not null,
    wish         text    not null check (wish in ('run', 'stop')),
    state        text    not null
                 check (state in ('waiting', 'starting', 'ready', 'stopping', 'stopped', 'down', 'failed')),
    -- Starts so far, and the id of the one that may work. None: none may.
    launch       integer not null default 0 check (launch >= 0),
    launch_id    uuid,
    -- By which its launcher finds it, and its process row, once it has them.
    handle       text,
    process_id   text,
    -- The last few handles, so that what is kept of older ones can be deleted.
    handles      json    not null default '[]',
    launched_at  bigint,
    ready_at     bigint,
    -- How the process of this launch ended, as its launcher has seen it.
    exited_at    bigint,
    exit_code    integer,
    exit_signal  integer,
    -- The launch that is to make way for a new one.
    replaced     integer,
    -- Deaths in a row before it was ready, and when the next start is due after one.
    early_deaths integer not null default 0 check (early_deaths >= 0),
    next_try_at  bigint,
    trouble      text    not null default '',
    who          text    not null check (who <> ''),
    why          text    not null default '',
    updated_at   bigint  not null,
    constraint who_runs_has_a_launch check ((launch_id is not null) = (state in ('starting', 'ready', 'stopping'))),
    constraint down_has_a_next_try check ((state = 'down') = (next_try_at is not null))
);
create unique index duty_by_launch on duty (launch_id) where launch_id is not null;

create table death (
    seq          bigint  generated always as identity primary key,
    duty         text    not null check (duty <> ''),
    launch       integer not null,
    process_id   text,
    host         text    not null,
    pid          integer,
    how          text    not null check (how in ('exit', 'signal', 'silence', 'gone', 'never ready')),
    exit_code    integer,
    exit_signal  integer,
    -- The last line that it wrote, or what stood in its way.
    trouble      text    not null default '',
    last_beat_at bigint,
    noticed_at   bigint  not null,
    -- What was the dead one's and is others' now: counts by kind. None: not freed yet.
    freed        json,
    -- When the duty was done again.
    back_at      bigint,
    term         bigint  not null,
    coordinator  text    not null
);
create unique index death_of_launch on death (duty, launch);
create index death_unfreed on death (seq) where freed is null;
create index death_not_back on death (duty) where back_at is null;
create index death_by_age on death (noticed_at);
