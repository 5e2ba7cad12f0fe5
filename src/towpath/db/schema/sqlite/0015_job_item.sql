-- Bulk jobs work their items off in order, so a number says how far they are, and no item moves in an index.

alter table desk_job add column worked_to integer not null default 0 check (worked_to >= 0);
update desk_job set worked_to = coalesce(
    (select max(number) from desk_job_item where job_id = desk_job.id and state <> 'waiting'), 0);

create table desk_job_item_in_order (
    job_id  text    not null,
    number  integer not null check (number >= 1), -- that of the case
    case_id text    not null,
    state   text    not null check (state in ('waiting', 'done', 'refused')),
    said    text,
    done_at integer,
    primary key (job_id, number)
) strict, without rowid;
insert into desk_job_item_in_order (job_id, number, case_id, state, said, done_at)
select job_id, number, case_id, state, said, done_at from desk_job_item;
drop table desk_job_item;
alter table desk_job_item_in_order rename to desk_job_item;
