-- name: actor_of_inbox
-- Not a query: whose inbox it is.
substr(inbox, 7, instr(substr(inbox, 7), ':') - 1);

-- name: among_actors
-- Not a query: is one of the texts in the JSON array :actors.
in (select value from json_each(:actors));

-- name: end_held
-- Messages come to an end for a reason each; of each row: id, state, reason, and the owner that must have it, if any.
update message set state = each.value ->> 1, reason = each.value ->> 2, deliver_after = null,
                   updated_at = :now
from json_each(:rows) as each
where message.id = each.value ->> 0 and message.state in ('NEW', 'ACK')
  and (each.value ->> 3 is null or message.owner = each.value ->> 3)
returning message.id, message.reply_to;

-- name: answered
-- Which of these messages have an answer, or will never have one.
select each.value from json_each(:ids) as each
left join message as question on question.id = each.value
where question.id is null or question.state in ('OK', 'ERR', 'DEAD');
