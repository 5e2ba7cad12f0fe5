-- Learned corrections: rules, the counts that speak for them, and what they have done to records.

create table desk_rule (
    id         bigint generated always as identity primary key,
    flow       text    not null check (flow <> ''),
    field      text    not null check (field <> ''),
    kind       text    not null check (kind in ('decided', 'slip', 'date', 'number', 'meant')),
    -- The paths of the deciding fields with a comma between them.
    deciders   text    not null,
    state      text    not null check (state in ('suggested', 'on', 'off', 'reverted')),
    -- Records that must say the same, and how sure it has to be, before a record is changed without asking.
    support    integer not null check (support >= 1),
    confidence double precision not null check (confidence > 0 and confidence <= 1),
    -- How often what it did was right and wrong, since it was turned on.
    was_right  bigint not null default 0 check (was_right >= 0),
    was_wrong  bigint not null default 0 check (was_wrong >= 0),
    who        text    check (who <> ''),
    why        text,
    made_at    bigint not null,
    moved_at   bigint not null,
    unique (flow, field, kind, deciders),
    constraint moved_by_somebody check ((state = 'suggested') = (who is null))
);

-- All that was learned are counts. Those of `taken` come from records that the flow has taken or that have failed,
-- those of `edited` from operators' edits that have loaded.
create table desk_evidence (
    flow     text    not null,
    field    text    not null,
    aspect   text    not null,
    deciders text    not null,
    given    text    not null,
    value    text    not null,
    taken    bigint not null check (taken >= 0),
    edited   bigint not null check (edited >= 0),
    primary key (flow, field, aspect, deciders, given, value)
);

-- Up to where the topics of a flow were counted. Moves with the counts made of them.
create table desk_learning (
    flow      text    not null,
    topic     text    not null,
    topic_id  text    not null,
    partition integer not null check (partition >= 0),
    position  bigint not null check (position >= 0),
    moved_at  bigint not null,
    primary key (flow, topic_id, partition)
);

-- Edits that were counted, as long as their cases are there.
create table desk_learned (
    case_id uuid    not null,
    edit    integer not null check (edit >= 1),
    at      bigint not null,
    primary key (case_id, edit)
);

-- What rules have changed without asking, and whether it was right. It outlives the case, so that a rule can be undone.
create table desk_touched (
    case_id   uuid    not null,
    edit      integer not null check (edit >= 1),
    field     text    not null,
    rule_id   bigint not null references desk_rule (id),
    before    text,
    after     text    not null,
    -- How often the record had failed when it was changed.
    attempt   integer not null check (attempt >= 1),
    verdict   text    not null check (verdict in ('unknown', 'right', 'wrong')),
    made_at   bigint not null,
    judged_at bigint,
    primary key (case_id, edit, field),
    constraint judged_has_a_time check ((verdict = 'unknown') = (judged_at is null))
);
create index desk_touched_by_rule on desk_touched (rule_id, made_at, case_id);
create index desk_touched_unjudged on desk_touched (case_id) where verdict = 'unknown';

-- What operators have put where a rule has made a suggestion, and whether that was the same.
create table desk_verdict (
    case_id uuid    not null,
    edit    integer not null check (edit >= 1),
    flow    text    not null,
    field   text    not null,
    -- None: no rule had anything to suggest.
    rule_id bigint references desk_rule (id),
    agrees  integer check (agrees in (0, 1)),
    at      bigint not null,
    primary key (case_id, edit, field),
    constraint a_rule_agrees_or_not check ((rule_id is null) = (agrees is null))
);
create index desk_verdict_by_flow on desk_verdict (flow, rule_id);
