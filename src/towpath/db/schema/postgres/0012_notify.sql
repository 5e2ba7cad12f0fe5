-- Notices: what people should hear of, collected for a while so that a flood is one notification.

create table notify_notice (
    seq     bigint  generated always as identity primary key,
    kind    text    not null check (kind <> ''),
    -- What it is about, such as a group; the same again is the same notice.
    subject text    not null check (subject <> ''),
    title   text    not null,
    data    json    not null default '{}',
    times   integer not null default 1 check (times >= 1),
    state   text    not null check (state in ('waiting', 'handed')),
    at      bigint  not null,
    last_at bigint  not null,
    handed_at bigint,
    constraint handed_has_a_time check ((state = 'handed') = (handed_at is not null))
);
create unique index notify_notice_waiting on notify_notice (kind, subject) where state = 'waiting';
create index notify_notice_handed on notify_notice (kind, subject, seq) where state = 'handed';
create index notify_notice_by_age on notify_notice (handed_at) where state = 'handed';
