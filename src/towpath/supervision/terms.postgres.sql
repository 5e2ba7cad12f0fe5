-- name: hold_term
-- Whether this one coordinates; nobody can take the term before the transaction ends.
select term from supervision_term where term = :term and holder = :holder and lease_until >= :now for share;
