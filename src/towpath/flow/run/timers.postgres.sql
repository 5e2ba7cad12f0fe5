-- name: save_dues
-- When some shards are due from now on; `:rows` has operator, shard and times of each.
insert into flow_due (flow, stage, generation, operator, shard, due)
select :flow, :stage, :generation, (each.value ->> 0)::integer, (each.value ->> 1)::integer, each.value -> 2
from json_array_elements(:rows::json) as each (value)
on conflict (flow, stage, generation, operator, shard) do update set due = excluded.due;
