-- name: to_be_sent
-- Whether a record waits for the relay. What the outbox holds is on its way within seconds, so there are few rows.
select seq from desk_outbox where flow = :flow and case_id = :case and ticket = :ticket limit 1;
