-- $1 queues, $2 ids, $3 types, $4 correlation ids, $5 causation ids, $6 content types, $7 headers, $8 times,
-- $9 expiries, $10 bodies. Messages without a delay, a history or an ordering key, which are most.
WITH stored AS (
    INSERT INTO {schema}.messages
        (queue, id, type, correlation_id, causation_id, content_type, headers, time, expires_at, body)
    SELECT * FROM unnest(
        $1::integer[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[],
        $9::bigint[], $10::bytea[]
    )
    RETURNING queue, seq, octet_length(body) AS bytes
)
INSERT INTO {schema}.ready (queue, visible_at, seq, bytes, acquired, failed, released, replayed, detailed)
SELECT queue, (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint), seq, bytes, 0, 0, 0, 0, false
FROM stored
