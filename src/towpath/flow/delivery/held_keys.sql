-- name: send
-- So many more records of a key lie in the error topic.
insert into flow_held_key (flow, stage, key_hash, sent, held_at) values (:flow, :stage, :key_hash, :count, :now)
on conflict (flow, stage, key_hash) do update set sent = flow_held_key.sent + excluded.sent;

-- name: settle
-- So many more of them are done with. The batch that has sent them may not be committed yet.
insert into flow_held_key (flow, stage, key_hash, settled, held_at) values (:flow, :stage, :key_hash, :count, :now)
on conflict (flow, stage, key_hash) do update set settled = flow_held_key.settled + excluded.settled;

-- name: free
-- Keys of a stage of which all that was sent is done with.
delete from flow_held_key where flow = :flow and stage = :stage and sent <= settled;

-- name: held
-- The keys that a stage holds.
select key_hash from flow_held_key where flow = :flow and stage = :stage and sent > settled;
