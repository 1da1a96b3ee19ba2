-- $1 queue, $2 ordering keys whose message is done. Lets the next message of each be claimed, or forgets the key.
-- It runs after lock_keys, as a statement of its own: only so does it see what the last holder of the lock stored.
WITH next AS (
    DELETE FROM {schema}.blocked AS b
    USING unnest($2::text[]) AS done (key)
    WHERE b.queue = $1 AND b.key = done.key AND b.place = (
        SELECT first.place FROM {schema}.blocked AS first
        WHERE first.queue = $1 AND first.key = done.key ORDER BY first.place LIMIT 1
    )
    RETURNING b.key, b.visible_at, b.seq, b.bytes, b.acquired, b.failed, b.released, b.replayed, b.detailed
), unblocked AS (
    -- It became ready only now, whatever its own delay was.
    INSERT INTO {schema}.ready (queue, visible_at, seq, bytes, acquired, failed, released, replayed, detailed)
    SELECT $1, greatest(visible_at, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint), seq, bytes, acquired,
           failed, released, replayed, detailed
    FROM next
), forgotten AS (
    DELETE FROM {schema}.ordering_keys
    WHERE queue = $1 AND key = ANY ($2) AND key <> ALL (ARRAY(SELECT key FROM next))
)
SELECT count(*) FROM next
