-- name: add_pass
-- Fix where an input ends for a stage. No row: it is fixed already.
insert into upload_pass (upload, input, stage, positions) values (:upload, :input, :stage, :positions)
on conflict (upload, input, stage) do nothing;

-- name: mark_passed
-- The stage has come to that end. No row: that is known.
update upload_pass set passed_at = :now
where upload = :upload and input = :input and stage = :stage and passed_at is null
returning stage;

-- name: passes_of_upload
-- All ends of an upload.
select input, stage, positions, passed_at from upload_pass where upload = :upload order by input, stage;

-- name: has_passed
-- One row if all stages that read an input have come to its end.
select stage from upload_pass where upload = :upload and input = :input and stage = '' and passed_at is not null;

-- name: under_way
-- Uploads with a sender that has finished, not yet passed by all stages; the oldest first.
select u.id from upload as u
where u.stream in ($streams) and u.state in ('receiving', 'closing')
  and exists (select 1 from upload_sender as s where s.upload = u.id and s.state = 'finished')
  and not exists (select 1 from upload_pass as p
                  where p.upload = u.id and p.input = '*' and p.stage = '' and p.passed_at is not null)
order by u.seq;

-- name: ready
-- Uploads in closing that all stages have come to the end of, and when they did; the oldest first.
select u.id, p.passed_at from upload as u join upload_pass as p on p.upload = u.id
where u.stream in ($streams) and u.state = 'closing' and p.input = '*' and p.stage = '' and p.passed_at is not null
order by u.seq;
