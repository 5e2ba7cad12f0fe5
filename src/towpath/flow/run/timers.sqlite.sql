-- name: save_dues
-- When some shards are due from now on; `:rows` has operator, shard and times of each.
insert into flow_due (flow, stage, generation, operator, shard, due)
select :flow, :stage, :generation, each.value ->> 0, each.value ->> 1, each.value -> 2
from json_each(:rows) as each
where true
on conflict (flow, stage, generation, operator, shard) do update set due = excluded.due;
