-- $1 queue, $2 the feed, $3 how many, $4 how many bytes, $5 for how many milliseconds. Hands out dead letters that no
-- feed has.
WITH clock AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
), free AS MATERIALIZED (
    SELECT * FROM {schema}.dead
    WHERE queue = $1 AND taken_until <= (SELECT now FROM clock) AND taken_by IS DISTINCT FROM $2
    ORDER BY id LIMIT $3
    FOR UPDATE SKIP LOCKED
), page AS MATERIALIZED (
    SELECT * FROM (
        SELECT *, row_number() OVER so_far AS number, sum(bytes) OVER so_far AS total_bytes
        FROM free WINDOW so_far AS (ORDER BY id ROWS UNBOUNDED PRECEDING)
    ) AS counted
    WHERE number = 1 OR total_bytes <= $4
), handed_out AS (
    UPDATE {schema}.dead AS d SET taken_until = (SELECT now FROM clock) + $5, taken_by = $2
    WHERE d.id = ANY (ARRAY(SELECT id FROM page))
)
SELECT page.id, page.seq, page.reason_code, page.reason, page.died_at,
       page.acquired, page.failed, page.released, page.replayed, l.details,
       m.id, m.type, m.correlation_id, m.causation_id, m.content_type, m.headers, m.time, m.expires_at, m.ordering_key,
       m.body
FROM page
LEFT JOIN LATERAL (SELECT * FROM {schema}.messages AS m WHERE m.seq = page.seq OFFSET 0) AS m ON true
LEFT JOIN LATERAL (
    SELECT details FROM {schema}.ledgers AS l WHERE page.detailed AND l.seq = page.seq OFFSET 0
) AS l ON true
ORDER BY page.id
