-- $1 queue, $2 ids, NULL for all, $3 how many at most. Locks dead letters in the order of their ids, and tells their
-- ordering keys.
SELECT d.id, m.ordering_key
FROM {schema}.dead AS d
LEFT JOIN LATERAL (SELECT ordering_key FROM {schema}.messages AS m WHERE m.seq = d.seq OFFSET 0) AS m ON true
WHERE d.queue = $1 AND ($2::bigint[] IS NULL OR d.id = ANY ($2)) AND d.id <= $3
ORDER BY d.id
LIMIT $4
FOR UPDATE OF d
