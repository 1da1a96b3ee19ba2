-- $1 queues, $2 ids, $3 windows in milliseconds, $4 digests, $5 the call. Each id is there once.
-- Each new id removes up to two expired ones, so that the table does not grow forever.
WITH clock AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
), forgotten AS (
    DELETE FROM {schema}.once WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {schema}.once WHERE until <= (SELECT now FROM clock)
            AND (queue, id) NOT IN (SELECT * FROM unnest($1::integer[], $2::text[]))
        ORDER BY until LIMIT 2 * cardinality($2::text[]) FOR UPDATE SKIP LOCKED
    ))
)
INSERT INTO {schema}.once AS known (queue, id, until, digest, owner)
SELECT queue, id, (SELECT now FROM clock) + window_ms, digest, $5
FROM unnest($1::integer[], $2::text[], $3::bigint[], $4::bigint[]) AS sent (queue, id, window_ms, digest)
ORDER BY queue, id
ON CONFLICT (queue, id) DO UPDATE SET
    until = CASE WHEN known.until <= (SELECT now FROM clock) THEN excluded.until ELSE known.until END,
    digest = CASE WHEN known.until <= (SELECT now FROM clock) THEN excluded.digest ELSE known.digest END,
    owner = CASE WHEN known.until <= (SELECT now FROM clock) THEN excluded.owner ELSE known.owner END
RETURNING queue, id, digest, owner = $5
