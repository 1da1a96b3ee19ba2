-- As insert_fresh, then: $11 ordering keys, $12 delays in milliseconds, $13 acquired, $14 failed, $15 released,
-- $16 replayed, $17 details of ledgers, $18 whether it waits for an earlier message of its key.
WITH sent AS MATERIALIZED (
    SELECT nextval('{schema_text}.message_seq') AS seq, sent.*
    FROM unnest(
        $1::integer[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[],
        $9::bigint[], $10::bytea[], $11::text[], $12::bigint[], $13::integer[], $14::integer[], $15::integer[],
        $16::integer[], $17::text[], $18::boolean[]
    ) AS sent (
        queue, id, type, correlation_id, causation_id, content_type, headers, time, expires_at, body, ordering_key,
        delay_ms, acquired, failed, released, replayed, details, blocked
    )
), stored AS (
    INSERT INTO {schema}.messages
        (seq, queue, id, type, correlation_id, causation_id, content_type, headers, time, expires_at, ordering_key, body)
    SELECT seq, queue, id, type, correlation_id, causation_id, content_type, headers, time, expires_at, ordering_key, body
    FROM sent
), recorded AS (
    INSERT INTO {schema}.ledgers (seq, details) SELECT seq, details FROM sent WHERE details IS NOT NULL
), blocked AS (
    INSERT INTO {schema}.blocked
        (queue, key, visible_at, seq, bytes, acquired, failed, released, replayed, detailed)
    SELECT queue, ordering_key, (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) + delay_ms, seq,
           octet_length(body), acquired, failed, released, replayed, details IS NOT NULL
    FROM sent WHERE blocked
)
INSERT INTO {schema}.ready (queue, visible_at, seq, bytes, acquired, failed, released, replayed, detailed)
SELECT queue, (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) + delay_ms, seq, octet_length(body),
       acquired, failed, released, replayed, details IS NOT NULL
FROM sent WHERE NOT blocked
