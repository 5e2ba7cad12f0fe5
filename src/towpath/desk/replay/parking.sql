-- name: last_of_keys
-- The newest case of each of some keys of a flow that is not at its end, by stage.
select stage, key_hash, id from desk_case
where seq in (
    select max(seq) from desk_case
    where flow = :flow and key_hash $among_keys and state in ('waiting', 'parked', 'open', 'replaying')
    group by stage, key_hash);

-- name: parked_behind
-- What is parked behind these cases, and the case of the same key that is before it now, if there is one.
select id, (select earlier.id from desk_case as earlier
            where earlier.flow = desk_case.flow and earlier.key_hash = desk_case.key_hash
              and earlier.stage = desk_case.stage and earlier.seq < desk_case.seq
              and earlier.state in ('waiting', 'parked', 'open', 'replaying')
            order by earlier.seq desc limit 1)
from desk_case where behind $among_ids and state = 'parked' order by seq;

-- name: stay_behind
-- A parked case waits for another one.
update desk_case set behind = :behind where id = :id and state = 'parked'
returning id;
