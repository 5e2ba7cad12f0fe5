-- name: columns
-- Not a query: the columns of a complaint, in the order of `Complaint`.
number, state, target, document, said, contact, flow, made_by, made_at, topic, topic_id, partition, position, taken_by,
taken_at, outcome, rule, settled_by, settled_at, why, reply;

-- name: open
-- Not a query: nobody has settled it.
state in ('new', 'taken');

-- name: add_complaint
-- What a reader has said.
insert into complaint (state, target, document, said, contact, flow, made_by, made_at, topic, topic_id, partition,
                       position)
values ('new', :target, :document, :said, :contact, :flow, :made_by, :now, :topic, :topic_id, :partition, :position)
returning $columns;

-- name: count_new
-- How many nobody has looked at, up to a number.
select count(*) from (select 1 from complaint where state = 'new' limit :most) as found;

-- name: read_complaint
-- One complaint.
select $columns from complaint where number = :number;

-- name: list_complaints
-- One page, the newest first.
select $columns from complaint where number < coalesce(:before, 9223372036854775807) order by number desc limit :limit;

-- name: list_complaints_in_state
-- One page of those in a state, the newest first.
select $columns from complaint
where state = :state and number < coalesce(:before, 9223372036854775807) order by number desc limit :limit;

-- name: list_complaints_about
-- One page of those about a document, the newest first.
select $columns from complaint
where target = :target and document = :document and number < coalesce(:before, 9223372036854775807)
order by number desc limit :limit;

-- name: count_by_state
-- How many there are in each state.
select state, count(*) from complaint group by state;

-- name: take_complaint
-- Somebody is at it. No row: it is settled.
update complaint set state = 'taken', taken_by = :who, taken_at = :now where number = :number and $open
returning $columns;

-- name: link_complaint
-- The record is known. No row: it is settled.
update complaint set topic = :topic, topic_id = :topic_id, partition = :partition, position = :position
where number = :number and $open
returning $columns;

-- name: settle_complaint
-- Something was done about it. No row: that was so before.
update complaint set state = 'settled', outcome = :outcome, rule = :rule, settled_by = :who, settled_at = :now,
                     why = :why, reply = :reply
where number = :number and $open
returning $columns;

-- name: forget_complaints
-- Delete some that were settled long ago.
delete from complaint where number in
(select number from complaint where state = 'settled' and settled_at < :older_than order by settled_at limit :limit);
