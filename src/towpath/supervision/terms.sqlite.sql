-- name: hold_term
-- Whether this one coordinates; a write transaction keeps all others out until it ends.
select term from supervision_term where term = :term and holder = :holder and lease_until >= :now;
