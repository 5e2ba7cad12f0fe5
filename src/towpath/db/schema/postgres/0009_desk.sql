-- The error desk: cases and their groups, what is to be sent back into flows, lanes, policies and bulk jobs.
-- Rows that come by the thousand name others without a foreign key: the check would be paid for each of them.

create table desk_group (
    id           bigint  generated always as identity primary key,
    flow         text    not null check (flow <> ''),
    code         integer not null check (code >= 0),
    step         text    not null,
    exception    text    not null,
    -- The message without its particulars.
    title        text    not null,
    state        text    not null check (state in ('new', 'ongoing', 'resolved', 'archived', 'regressed')),
    -- Until when it is archived, as a JSON object: a number of cases, a time or a rate.
    archive      json,
    assignee     text    check (assignee <> ''),
    -- All its cases count as those of another group, and new ones go there.
    merged_into  bigint  references desk_group (id),
    -- How many cases it has ever been given.
    seen         bigint  not null default 0 check (seen >= 0),
    first_at     bigint  not null,
    last_at      bigint  not null,
    moved_at     bigint  not null,
    constraint archived_says_until_when check ((state = 'archived') = (archive is not null)),
    constraint not_merged_into_itself check (merged_into <> id)
);
create index desk_group_by_flow on desk_group (flow, last_at, id) where merged_into is null;
create index desk_group_by_last on desk_group (last_at, id) where merged_into is null;
create index desk_group_merged on desk_group (merged_into) where merged_into is not null;

-- Which group errors of a fingerprint go to. A merged group's fingerprints point to the one that it went into.
create table desk_fingerprint (
    flow        text    not null,
    fingerprint text    not null check (fingerprint <> ''),
    algorithm   integer not null check (algorithm >= 1),
    group_id    bigint  not null references desk_group (id),
    -- What the fingerprint was made of, as a JSON object, for people who ask why errors are together.
    made_of     json    not null,
    made_at     bigint  not null,
    primary key (flow, fingerprint)
);
create index desk_fingerprint_by_group on desk_fingerprint (group_id);

-- How many cases a group has in each state: a list of groups must not count a million cases.
create table desk_tally (
    group_id bigint not null,
    state    text   not null,
    cases    bigint not null check (cases >= 0),
    primary key (group_id, state)
);

create table desk_case (
    seq            bigint  generated always as identity primary key,
    -- Is the correlation id under which its record goes back into the flow. Made of the stage, the batch, and where that
    -- has read the record, so that what is told twice has the same.
    id             uuid    not null unique,
    flow           text    not null check (flow <> ''),
    stage          text    not null check (stage <> ''),
    -- A stray is a record in an error topic that no flow of ours has written.
    kind           text    not null check (kind in ('error', 'gap', 'stray')),
    -- Of its last failure: the group, and the fingerprint that has put it there.
    group_id       bigint  not null,
    fingerprint    text    not null,
    state          text    not null check (state in ('waiting', 'parked', 'open', 'replaying', 'ignored', 'resolved',
                                                     'abandoned', 'resent')),
    -- The last failure.
    code           integer not null check (code >= 0),
    step           text    not null,
    exception      text    not null,
    message        text    not null,
    output         text,
    -- Where the stage has read the record for the first time; of a gap, its first offset and the one after its last.
    topic          text    not null,
    topic_id       text    not null,
    partition      integer not null check (partition >= 0),
    start_offset   bigint  not null check (start_offset >= 0),
    stop_offset    bigint,
    key            bytea,
    -- Of the key, where records of one key must keep their order: a key itself may be too large for an index.
    key_hash       text,
    -- Of the batch in which it has failed for the first time.
    hash           text    not null,
    -- Where the last error record lies.
    error_topic     text    not null,
    error_partition integer not null check (error_partition >= 0),
    error_offset    bigint  not null check (error_offset >= 0),
    -- Failures burn attempts, what was given back does not.
    attempts       integer not null default 1 check (attempts >= 1),
    give_backs     integer not null default 0 check (give_backs >= 0),
    -- Raised by everything that sends the record anywhere or calls that back: what a lane holds counts only under it.
    ticket         integer not null default 0 check (ticket >= 0),
    lane           integer check (lane >= 0),
    due_at         bigint,
    -- The case of the same key that must be settled first.
    behind         uuid,
    assignee       text    check (assignee <> ''),
    -- The policy that has decided, such as `shop/operator/3/0`.
    rule           text,
    -- The number of the edit whose body goes out next; 0: the record's own.
    edit           integer not null default 0 check (edit >= 0),
    body_bytes     bigint  not null check (body_bytes >= 0),
    first_failed_at bigint not null,
    failed_at      bigint  not null,
    taken_at       bigint  not null,
    moved_at       bigint  not null,
    settled_at     bigint,
    settled_by     text    check (settled_by <> ''),
    settled_why    text,
    constraint waiting_is_in_a_lane check ((state = 'waiting') = (lane is not null and due_at is not null)),
    constraint parked_is_behind_one check ((state = 'parked') = (behind is not null)),
    constraint settled_has_a_time check ((state in ('resolved', 'abandoned', 'resent')) = (settled_at is not null)),
    constraint settled_by_somebody check (state not in ('abandoned', 'resent', 'ignored')
                                          or (settled_by is not null and settled_why is not null)),
    constraint gap_has_an_end check ((kind = 'gap') = (stop_offset is not null))
);
create index desk_case_by_input on desk_case (topic_id, partition, start_offset);
create index desk_case_by_flow on desk_case (flow, state, seq);
create index desk_case_by_group on desk_case (group_id, state, seq);
create index desk_case_by_key on desk_case (flow, key_hash, seq)
    where key_hash is not null and state in ('waiting', 'parked', 'open', 'replaying');
create index desk_case_due on desk_case (flow, lane, due_at) where state = 'waiting';
create index desk_case_by_assignee on desk_case (assignee, seq) where assignee is not null;
create index desk_case_settled on desk_case (settled_at, seq) where settled_at is not null;
create index desk_case_behind on desk_case (behind) where behind is not null;

-- Bodies, until their case is settled. `blob` names a file for one that is too large for a row.
create table desk_body (
    case_id uuid  primary key,
    value   bytea,
    blob    text,
    -- The record's own headers and those of ours that it goes back with, as JSON.
    headers text
);
create index desk_body_by_blob on desk_body (blob) where blob is not null;

-- Traces, once for each text: a million errors of one cause have one.
create table desk_trace (
    id    text primary key,
    trace text not null
);

create table desk_attempt (
    case_id         uuid    not null,
    attempt         integer not null check (attempt >= 1),
    code            integer not null check (code >= 0),
    step            text    not null,
    exception       text    not null,
    message         text    not null,
    trace_id        text,
    hash            text    not null,
    version         text    not null,
    process         text    not null,
    error_topic     text    not null,
    error_partition integer not null,
    error_offset    bigint  not null,
    failed_at       bigint  not null,
    primary key (case_id, attempt)
);

create table desk_edit (
    case_id    uuid    not null,
    edit       integer not null check (edit >= 1),
    value      bytea   not null,
    state      text    not null check (state in ('proposed', 'applied', 'refused', 'overtaken')),
    -- A person, or a rule of learned corrections as `rule:7`.
    who        text    not null check (who <> ''),
    why        text    not null,
    made_at    bigint  not null,
    decided_by text    check (decided_by <> ''),
    decided_at bigint,
    primary key (case_id, edit),
    constraint decided_by_somebody check ((state = 'proposed') = (decided_at is null))
);

-- What persons and rules have done to cases and groups.
create table desk_history (
    seq      bigint  generated always as identity primary key,
    case_id  uuid,
    group_id bigint,
    what     text    not null check (what <> ''),
    who      text    not null check (who <> ''),
    why      text    not null,
    data     json    not null default '{}',
    at       bigint  not null,
    constraint of_a_case_or_a_group check ((case_id is null) <> (group_id is null))
);
create index desk_history_by_case on desk_history (case_id, seq) where case_id is not null;
create index desk_history_by_group on desk_history (group_id, seq) where group_id is not null;

-- How far the desk has come in topics of flows: error records and outcomes. Moves with the rows made of them.
create table desk_position (
    flow      text    not null,
    topic     text    not null,
    topic_id  text    not null,
    partition integer not null check (partition >= 0),
    kind      text    not null check (kind in ('errors', 'outcomes')),
    position  bigint  not null check (position >= 0),
    -- What was read: all of the flow's own, and those among them that had been told before.
    records   bigint  not null default 0 check (records >= 0),
    repeats   bigint  not null default 0 check (repeats >= 0),
    moved_at  bigint  not null,
    primary key (flow, topic_id, partition)
);

-- What was deleted when its time was over, so that the audit can still add it up.
create table desk_forgotten (
    flow     text   not null,
    kind     text   not null,
    state    text   not null,
    cases    bigint not null check (cases >= 0),
    attempts bigint not null check (attempts >= 0),
    primary key (flow, kind, state)
);

-- What is to be appended to topics. `seq` counts within a flow and is given under a lock of the flow's row in
-- desk_relay, so that numbers appear in their order.
create table desk_relay (
    flow     text   primary key,
    last_seq bigint not null check (last_seq >= 0),
    -- The process whose relay sends for this flow.
    owner    text
);
create table desk_outbox (
    flow    text    not null,
    seq     bigint  not null check (seq >= 1),
    case_id uuid    not null,
    ticket  integer not null,
    attempt integer not null,
    target  text    not null check (target in ('lane', 'reentry', 'source')),
    lane    integer,
    due_at  bigint,
    -- Of what goes to the source: in whose name the case is settled when the log has it.
    who     text,
    why     text,
    made_at bigint  not null,
    primary key (flow, seq),
    constraint lane_has_a_time check ((target = 'lane') = (lane is not null and due_at is not null))
);

create table desk_lane (
    flow       text    not null,
    partition  integer not null check (partition >= 0),
    delay_ms   bigint  not null check (delay_ms >= 0),
    is_paused  smallint not null default 0 check (is_paused in (0, 1)),
    -- What is due before this time counts as due now.
    hurried_to bigint  not null default 0,
    -- Spreads the release after what is due.
    jitter_ms  bigint  not null default 0 check (jitter_ms >= 0),
    -- The safe position, the number of the last release, and what was released beyond that position before and after it.
    position   bigint  not null default 0 check (position >= 0),
    release    bigint  not null default 0 check (release >= 0),
    beyond     json    not null default '{"before": [], "after": []}',
    -- The replayer that has it, and another one that has fewer.
    owner      text,
    wanted_by  text,
    made_at    bigint  not null,
    primary key (flow, partition),
    unique (flow, delay_ms)
);

-- Versions of the policies of a flow: those in its code, and those that operators put before them.
create table desk_policy (
    flow     text    not null,
    origin   text    not null check (origin in ('code', 'operator')),
    version  integer not null check (version >= 1),
    policies json    not null,
    who      text    not null check (who <> ''),
    why      text    not null,
    made_at  bigint  not null,
    primary key (flow, origin, version)
);

create table desk_job (
    seq       bigint  generated always as identity primary key,
    id        uuid    not null unique,
    name      text    not null check (name <> ''),
    kind      text    not null check (kind in ('replay', 'abandon', 'assign', 'open', 'resend', 'correct',
                                               'regroup')),
    state     text    not null check (state in ('counted', 'filling', 'running', 'paused', 'aborted', 'finished',
                                                'failed')),
    -- What it is for, as the filter of a list; and what is done, as JSON.
    selection json    not null,
    arguments json    not null,
    rate_s    double precision check (rate_s > 0),
    who       text    not null check (who <> ''),
    why       text    not null,
    cases     bigint  not null check (cases >= 0),
    done      bigint  not null default 0,
    refused   bigint  not null default 0,
    reason    text,
    made_at   bigint  not null,
    begun_at  bigint,
    ended_at  bigint,
    constraint ended_has_a_time check ((state in ('aborted', 'finished', 'failed')) = (ended_at is not null))
);
create index desk_job_at_work on desk_job (state, seq) where state in ('counted', 'filling', 'running', 'paused');

create table desk_job_item (
    job_id  uuid    not null,
    number  bigint  not null check (number >= 1),
    case_id uuid    not null,
    state   text    not null check (state in ('waiting', 'done', 'refused')),
    said    text,
    done_at bigint,
    primary key (job_id, number),
    unique (job_id, case_id)
);
create index desk_job_item_left on desk_job_item (job_id, number) where state = 'waiting';
