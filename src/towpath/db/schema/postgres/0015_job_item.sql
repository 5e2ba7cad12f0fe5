-- Bulk jobs work their items off in order, so a number says how far they are, and no item moves in an index.

alter table desk_job add column worked_to bigint not null default 0 check (worked_to >= 0);
update desk_job set worked_to = coalesce(
    (select max(number) from desk_job_item where job_id = desk_job.id and state <> 'waiting'), 0);

drop index desk_job_item_left;
alter table desk_job_item drop constraint desk_job_item_job_id_case_id_key;  -- the number is that of the case
alter table desk_job_item set (fillfactor = 50);  -- an item gets its outcome beside itself, in the same page
