-- On which machine a process is, and when it began there: who is on the same one sees at once that it is gone.

alter table process add column machine text not null default '';
alter table process add column born text not null default '';
