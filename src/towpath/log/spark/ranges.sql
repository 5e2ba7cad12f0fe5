-- name: measure_range
-- How much a range of places holds: records and bytes.
select count(*), total(length(key)) + total(length(value)) + total(length(headers))
from log_record where place >= :from and place < :to;

-- name: first_place
-- The first place of a range that holds something.
select min(place) from log_record where place >= :from and place < :to;
