-- Actors: what is known of their classes, where each instance is, and which answers it waits for.

create table actor (
    name       text    primary key check (name <> ''),
    about      text    not null,
    -- Its states with their fields and moves, as found in the code.
    shape      json    not null,
    is_enabled integer not null default 1 check (is_enabled in (0, 1)),
    seen_at    bigint not null
);

create table actor_instance (
    inbox    text    primary key check (substr(inbox, 1, 6) = 'actor:'),
    actor    text    not null,
    instance text    not null check (instance <> ''),
    phase    text    not null check (phase in ('idle', 'ready', 'running', 'sleeping', 'waiting', 'ended', 'failed')),
    -- The name of the state that it is in, or was in when it came to rest.
    step     text,
    -- The message that may run, the one that ran before it, and the start of the run.
    head_id  uuid,
    last_id  uuid,
    run_id   uuid,
    owner    text,
    due_at   bigint,
    -- How many answers have to be there before it goes on.
    needs    integer not null default 0 check (needs >= 0),
    -- How often the run has begun anew, since a process died in it.
    restarts integer not null default 0 check (restarts >= 0),
    -- Why it failed; why it is to fail as soon as its code returns.
    reason   text,
    abort    text,
    -- Whose call started the run, and whether it ends with its caller.
    parent   text,
    is_tied  integer not null default 0 check (is_tied in (0, 1)),
    moved_at bigint not null,
    constraint live_has_a_head check ((phase in ('idle', 'ended', 'failed')) = (head_id is null)),
    constraint running_has_an_owner check ((phase = 'running') = (owner is not null)),
    constraint due_when_it_may_run check (phase not in ('ready', 'sleeping') or due_at is not null),
    constraint not_due_otherwise check (phase in ('ready', 'sleeping', 'waiting') or due_at is null)
);
create unique index actor_instance_by_name on actor_instance (actor, instance);
create index actor_instance_due on actor_instance (due_at) where due_at is not null;
create index actor_instance_owned on actor_instance (owner) where owner is not null;
create index actor_instance_by_parent on actor_instance (parent) where parent is not null;

create table actor_wait (
    inbox       text    not null references actor_instance (inbox),
    question_id uuid    not null,
    is_answered integer not null default 0 check (is_answered in (0, 1)),
    primary key (inbox, question_id)
);
create index actor_wait_by_question on actor_wait (question_id);

-- What has come for actors and nobody has looked at: a head always has a time at which it is due.
create index message_arrived on message ((seq + 0))
    where state = 'NEW' and deliver_after is null and substr(inbox, 1, 6) = 'actor:';
-- The inboxes of whose messages the caretaker frees: there may be very many of the others.
create index inbox_plain on inbox (name) where substr(name, 1, 6) <> 'actor:';
