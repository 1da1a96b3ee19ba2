-- $1 queues, $2 ordering keys, each once. Locks the keys, and tells which of them had no message.
INSERT INTO {schema}.ordering_keys AS known (queue, key)
SELECT queue, key FROM unnest($1::integer[], $2::text[]) AS sent (queue, key)
ORDER BY queue, key
ON CONFLICT (queue, key) DO UPDATE SET key = known.key
RETURNING queue, key, xmax = 0
