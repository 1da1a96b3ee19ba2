-- $1 queue, $2 after which id, $3 how many, $4 how many bytes.
WITH page AS MATERIALIZED (
    SELECT * FROM (
        SELECT *, row_number() OVER so_far AS number, sum(bytes) OVER so_far AS total_bytes
        FROM (SELECT * FROM {schema}.dead WHERE queue = $1 AND id > $2 ORDER BY id LIMIT $3) AS found
        WINDOW so_far AS (ORDER BY id ROWS UNBOUNDED PRECEDING)
    ) AS counted
    WHERE number = 1 OR total_bytes <= $4
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
