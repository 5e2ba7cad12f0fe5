-- name: held_by
-- How much of what is a process's own: instances of actors, stages of flows, lanes of the desk.
select (select count(*) from actor_instance where owner = :process_id),
       (select count(*) from flow_stage where owner = :process_id),
       (select count(*) from desk_lane where owner = :process_id);
