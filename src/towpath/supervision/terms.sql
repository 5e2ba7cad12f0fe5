-- name: columns
-- Not a query: the columns of the term, in the order of `Term`.
term, holder, peer, taken_at, lease_until;

-- name: read_term
-- Who coordinates, until when.
select $columns from supervision_term;

-- name: take_term
-- Begin a new term. No row: another's lease is not over. One that ends too late is of before the clock was set back.
update supervision_term
set term = term + 1, holder = :holder, peer = :peer, taken_at = :now, lease_until = :now + :lease_us
where lease_until < :now or lease_until > :now + 10 * cast(:lease_us as bigint)
returning $columns;

-- name: renew_term
-- Go on. No row: the lease is over, or another has taken the term.
update supervision_term set lease_until = :now + :lease_us
where term = :term and holder = :holder and lease_until >= :now
returning lease_until;

-- name: release_term
-- Step down, so that another need not wait for the end of the lease.
update supervision_term set lease_until = :now - 1 where term = :term and holder = :holder and lease_until >= :now;
