-- name: take_request
-- A process is at it from now on. No row: it was taken before.
insert into access_request (who, key, asked, state, owner, audit_seq, made_at)
values (:who, :key, :asked, 'running', :owner, :audit_seq, :now)
on conflict (who, key) do nothing
returning who;

-- name: read_request
-- How far it is.
select asked, state, owner, status, answer, audit_seq from access_request where who = :who and key = :key;

-- name: take_over_request
-- Its process has died before anything was changed. No row: somebody was faster.
update access_request set owner = :owner, audit_seq = :audit_seq
where who = :who and key = :key and state = 'running' and owner = :before and audit_seq = :audit_before
returning who;

-- name: make_request
-- The change that it asks for is made by this transaction. No row: another has it.
update access_request set state = 'made'
where who = :who and key = :key and state = 'running' and owner = :owner and audit_seq = :audit_seq
returning who;

-- name: answer_request
-- Keep the answer. No row: another has answered it.
update access_request set state = 'answered', status = :status, answer = :answer
where who = :who and key = :key and state in ('running', 'made') and audit_seq = :audit_seq
returning who;

-- name: let_go_of_request
-- Nothing was changed: it may be asked again.
delete from access_request where who = :who and key = :key and state = 'running' and audit_seq = :audit_seq;

-- name: forget_requests
-- Delete the oldest past their time.
delete from access_request
where (who, key) in (select who, key from access_request where made_at < :older_than order by made_at limit :limit);
