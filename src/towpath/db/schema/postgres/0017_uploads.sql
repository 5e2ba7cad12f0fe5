-- Uploads: what clients send for a stream, how far each of their senders is, and what they get back.

create table upload (
    seq        bigint  generated always as identity primary key,
    id         uuid    not null unique,
    stream     text    not null check (stream <> ''),
    state      text    not null check (state in ('receiving', 'closing', 'sending', 'finished', 'aborted', 'expired')),
    -- Who opened it: nobody else's requests count.
    owner      text    not null check (owner <> ''),
    label      text    not null,
    opened_at  bigint  not null,
    touched_at bigint  not null,
    -- When its last sender finished, when its results were there, and when it ended.
    closed_at  bigint,
    sending_at bigint,
    ended_at   bigint,
    -- Who ended it before its time, and why; while it is closing, why that has failed.
    who        text,
    why        text,
    tries      bigint  not null default 0 check (tries >= 0),
    constraint receiving_is_not_closed check (state <> 'receiving' or closed_at is null),
    constraint closed_has_a_time check (state not in ('closing', 'sending', 'finished') or closed_at is not null),
    constraint sending_has_a_time check (state not in ('sending', 'finished') or sending_at is not null),
    constraint ended_has_a_time check ((state in ('finished', 'aborted', 'expired')) = (ended_at is not null)),
    constraint given_up_has_a_reason check (state not in ('aborted', 'expired') or (who <> '' and why <> ''))
);
create index upload_by_owner on upload (owner, seq);
create index upload_by_state on upload (state, stream, seq);
create index upload_silent on upload (state, touched_at) where state in ('receiving', 'sending');
create index upload_ended on upload (ended_at) where ended_at is not null;

create table upload_sender (
    upload      uuid    not null references upload (id),
    sender      text    not null check (sender <> ''),
    -- Where it stands among the senders of its upload.
    place       bigint  not null check (place >= 0),
    input       text    not null check (input <> ''),
    format      text    not null check (format in ('jsonl', 'csv')),
    -- Of a CSV, as a JSON array; null until its sender has said them.
    columns     text,
    state       text    not null check (state in ('receiving', 'finished')),
    -- Raised by every new connection: older ones count no more.
    session     bigint  not null default 0 check (session >= 0),
    -- Acknowledged: bytes, the number of the last line, the number of the last chunk, and the sum of those bytes.
    position    bigint  not null default 0 check (position >= 0),
    line        bigint  not null check (line >= 0),
    sequence    bigint  not null default 0 check (sequence >= 0),
    crc32       bigint  not null default 0 check (crc32 between 0 and 4294967295),
    refused     bigint  not null default 0 check (refused >= 0),
    -- The same numbers as they will be when what is under way is in the log, as a JSON object.
    plan        text,
    -- Where each partition of its topic ended when it had finished, as a JSON object.
    ends        text,
    touched_at  bigint  not null,
    finished_at bigint,
    primary key (upload, sender),
    constraint finished_has_ends check ((state = 'finished') = (ends is not null)),
    constraint finished_has_a_time check ((state = 'finished') = (finished_at is not null)),
    constraint finished_has_no_plan check (state <> 'finished' or plan is null)
);
create index upload_sender_unsettled on upload_sender (touched_at) where plan is not null;

create table upload_pass (
    upload    uuid    not null references upload (id),
    input     text    not null check (input <> ''),
    -- Empty where no stage reads the input.
    stage     text    not null,
    -- The offset up to which the stage has to come, by partition, as a JSON object.
    positions text    not null,
    passed_at bigint,
    primary key (upload, input, stage)
);
create index upload_pass_waiting on upload_pass (upload) where passed_at is null;

create table upload_result (
    upload          uuid    not null references upload (id),
    query           text    not null check (query <> ''),
    kind            text    not null check (kind in ('streamed', 'closing')),
    state           text    not null check (state in ('open', 'complete')),
    -- Of a streamed one: the stages that load it, in the order of their rows; and its columns, where they are declared.
    stages          text    not null default '[]',
    columns         text,
    -- Where it ends, and how much it is: known when it is complete.
    ends_at         text,
    rows            bigint  check (rows >= 0),
    bytes           bigint  check (bytes >= 0),
    -- How far its client has acknowledged it, and whether that is its end.
    cursor          text,
    acknowledged_at bigint,
    is_acknowledged bigint  not null default 0 check (is_acknowledged in (0, 1)),
    primary key (upload, query),
    constraint complete_has_an_end check ((state = 'complete') = (ends_at is not null)),
    constraint complete_is_counted check ((state = 'complete') = (rows is not null and bytes is not null)),
    constraint acknowledged_has_a_cursor check ((cursor is null) = (acknowledged_at is null)),
    constraint only_the_complete_is_acknowledged check (is_acknowledged = 0 or state = 'complete')
);
