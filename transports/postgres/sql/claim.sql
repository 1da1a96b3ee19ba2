-- $1 queue, $2 how many, $3 how many bytes, $4 lease in milliseconds, $5 token.
-- First what expired leases held, then what is ready. The time is read once: a volatile function could not be compared
-- by an index. Rows that others have locked are skipped, so claims never wait for each other.
WITH clock AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
), expired AS MATERIALIZED (
    SELECT seq, until AS due_at, bytes, acquired, failed, released, replayed, detailed, token
    FROM {schema}.leased
    WHERE queue = $1 AND until <= (SELECT now FROM clock)
    ORDER BY until, seq
    LIMIT $2
    FOR UPDATE SKIP LOCKED
), due AS MATERIALIZED (
    SELECT ctid AS place, seq, visible_at AS due_at, bytes, acquired, failed, released, replayed, detailed
    FROM {schema}.ready
    WHERE queue = $1 AND visible_at <= (SELECT now FROM clock)
    ORDER BY visible_at, seq
    LIMIT $2 - (SELECT count(*) FROM expired)
    FOR UPDATE SKIP LOCKED
), taken AS MATERIALIZED (
    SELECT * FROM (
        SELECT *, row_number() OVER so_far AS number, sum(bytes) OVER so_far AS total_bytes
        FROM (
            SELECT NULL::tid AS place, seq, due_at, bytes, acquired, failed, released, replayed, detailed, token
            FROM expired
            UNION ALL
            SELECT place, seq, due_at, bytes, acquired, failed, released, replayed, detailed, NULL::bigint
            FROM due
        ) AS found
        WINDOW so_far AS (ORDER BY due_at, seq ROWS UNBOUNDED PRECEDING)
    ) AS counted
    WHERE number = 1 OR total_bytes <= $3
), renewed AS (
    UPDATE {schema}.leased AS l
    SET until = (SELECT now FROM clock) + $4, token = $5, acquired = l.acquired + 1
    FROM taken WHERE taken.place IS NULL AND l.seq = taken.seq
), removed AS (
    DELETE FROM {schema}.ready AS r USING taken WHERE r.ctid = taken.place
), added AS (
    INSERT INTO {schema}.leased
        (seq, queue, until, token, bytes, acquired, failed, released, replayed, detailed)
    SELECT seq, $1, (SELECT now FROM clock) + $4, $5, bytes, acquired + 1, failed, released, replayed, detailed
    FROM taken WHERE place IS NOT NULL
)
SELECT taken.seq, taken.due_at, taken.token, (SELECT now FROM clock) + $4 AS until,
       taken.acquired, taken.failed, taken.released, taken.replayed, l.details,
       m.id, m.type, m.correlation_id, m.causation_id, m.content_type, m.headers, m.time, m.expires_at, m.ordering_key,
       m.body
FROM taken
LEFT JOIN LATERAL (SELECT * FROM {schema}.messages AS m WHERE m.seq = taken.seq OFFSET 0) AS m ON true
LEFT JOIN LATERAL (
    SELECT details FROM {schema}.ledgers AS l WHERE taken.detailed AND l.seq = taken.seq OFFSET 0
) AS l ON true
ORDER BY taken.number
