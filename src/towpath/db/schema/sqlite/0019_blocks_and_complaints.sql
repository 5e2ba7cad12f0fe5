-- Block rules: what is not taken, by whose word and until when; and what readers say about documents.

create table block_rule (
    number         integer primary key autoincrement,
    action         text    not null check (action in ('refuse', 'ignore')),
    -- What it matches: all that is said must fit.
    stream         text    check (stream <> ''),
    topic          text    check (topic <> ''),
    sender         text    check (sender <> ''),
    user_name      text    check (user_name <> ''),
    record_key     text    check (record_key <> ''),
    key_prefix     text    check (key_prefix <> ''),
    expression     text    check (expression <> ''),
    approved_by    text    not null check (approved_by <> ''),
    made_by        text    not null check (made_by <> ''),
    why            text    not null check (why <> ''),
    made_at        integer not null,
    ends_at        integer not null,
    withdrawn_at   integer,
    withdrawn_by   text,
    withdrawn_why  text,
    -- How many records it has caught, and when the last one.
    caught         integer not null default 0 check (caught >= 0),
    caught_at      integer,
    constraint rule_ends_after_it_was_made check (ends_at > made_at),
    constraint rule_matches_something check
        (coalesce(stream, topic, sender, user_name, record_key, key_prefix, expression) is not null),
    constraint one_kind_of_key check (record_key is null or key_prefix is null),
    constraint withdrawn_by_somebody check
        ((withdrawn_at is null) = (withdrawn_by is null) and (withdrawn_at is null) = (withdrawn_why is null)),
    constraint caught_has_a_time check ((caught = 0) = (caught_at is null))
) strict;
create index block_rule_in_force on block_rule (ends_at) where withdrawn_at is null;
create index block_rule_over on block_rule (coalesce(withdrawn_at, ends_at));

-- Lines of a sender that a rule has kept out: they are acknowledged, and no record.
alter table upload_sender add column blocked integer not null default 0 check (blocked >= 0);

create table complaint (
    number     integer primary key autoincrement,
    state      text    not null check (state in ('new', 'taken', 'settled')),
    -- What it is about: an index, a table or an output as its reader names it, and a document in it.
    target     text    not null check (target <> ''),
    document   text    not null check (document <> ''),
    flow       text    check (flow <> ''),
    said       text    not null check (said <> ''),
    contact    text    check (contact <> ''),
    -- Who of the staff has written it down; null: a reader has sent it.
    made_by    text    check (made_by <> ''),
    made_at    integer not null,
    -- The record that the document was made from, if it is known.
    topic      text,
    topic_id   text,
    partition  integer check (partition >= 0),
    position   integer check (position >= 0),
    taken_by   text,
    taken_at   integer,
    -- How it was settled, and what its reader may be told.
    outcome    text    check (outcome in ('dismissed', 'blocked', 're-run')),
    rule       integer,
    settled_by text,
    settled_at integer,
    why        text,
    reply      text,
    constraint record_is_named_whole check
        ((topic is null) = (partition is null) and (topic is null) = (position is null)
         and (topic is null) = (topic_id is null)),
    constraint somebody_is_at_it check (state <> 'taken' or taken_by is not null),
    constraint settled_by_somebody check
        ((state = 'settled') = (settled_at is not null) and (state = 'settled') = (settled_by is not null)
         and (state = 'settled') = (outcome is not null) and (state = 'settled') = (why is not null)),
    constraint only_blocking_makes_a_rule check ((coalesce(outcome, '') = 'blocked') = (rule is not null))
) strict;
create index complaint_by_state on complaint (state, number);
create index complaint_by_document on complaint (target, document, number);
create index complaint_settled on complaint (settled_at) where state = 'settled';
