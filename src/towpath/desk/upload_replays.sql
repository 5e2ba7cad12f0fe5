-- name: under_way
-- One of the cases of a flow whose record waits to be sent back, or is out, and bears a header.
select desk_case.id from desk_case join desk_body on desk_body.case_id = desk_case.id
where desk_case.flow = :flow and desk_case.state in ('waiting', 'parked', 'replaying')
  and desk_body.headers like :header
limit 1;
