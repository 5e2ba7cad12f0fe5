-- name: read_records
-- The records of a range of places, in order.
select place, timestamp_ms, key, value, headers from log_record where place >= :from and place < :to order by place;

-- name: end_of_portion
-- Where a portion of a range ends that holds at most so many records and, unless it is a single one, so many bytes.
select max(place) + 1 from (
    select place, row_number() over (order by place) as n,
           sum(coalesce(length(key), 0) + coalesce(length(value), 0)) over (order by place) as bytes
    from log_record where place >= :from and place < :to order by place limit :limit)
where n = 1 or bytes <= :bytes;

-- name: first_since
-- The first place in a range whose record is not older than that.
select place from log_record where place >= :from and place < :to and timestamp_ms >= :timestamp_ms
order by place limit 1;

-- name: delete_records
-- Free the room of a range of places.
delete from log_record where place >= :from and place < :to;
