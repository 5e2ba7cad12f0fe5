-- name: actor_of_inbox
-- Not a query: whose inbox it is.
split_part(inbox, ':', 2);

-- name: among_actors
-- Not a query: is one of the texts in the JSON array :actors.
= any (array (select json_array_elements_text(:actors::json)));

-- name: end_held
-- Messages come to an end for a reason each; of each row: id, state, reason, and the owner that must have it, if any.
update message set state = each.value ->> 1, reason = each.value ->> 2, deliver_after = null,
                   updated_at = :now
from json_array_elements(:rows::json) as each (value)
where message.id = (each.value ->> 0)::uuid and message.state in ('NEW', 'ACK')
  and (each.value ->> 3 is null or message.owner = each.value ->> 3)
returning message.id, message.reply_to;

-- name: answered
-- Which of these messages have an answer, or will never have one. Locked: an answer that is on its way comes after us.
with question as materialized (
    select id, state from message where id $among_ids order by id for update)
select each.value::text from json_array_elements_text(:ids::json) as each (value)
left join question on question.id = each.value::uuid
where question.id is null or question.state in ('OK', 'ERR', 'DEAD');
