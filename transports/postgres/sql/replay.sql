-- $1 queue, $2 ids, $3 whether each waits for an earlier message of its key. Each becomes a new generation.
WITH gone AS MATERIALIZED (
    DELETE FROM {schema}.dead AS d
    USING unnest($2::bigint[], $3::boolean[], $4::text[]) AS chosen (id, blocked, key)
    WHERE d.queue = $1 AND d.id = chosen.id
    RETURNING d.id, d.seq, d.bytes, d.replayed + 1 AS replayed, d.detailed, d.cause, chosen.blocked, chosen.key
), blocked AS (
    INSERT INTO {schema}.blocked
        (queue, key, visible_at, seq, bytes, acquired, failed, released, replayed, detailed)
    SELECT $1, key, (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint), seq, bytes, 0, 0, 0, replayed,
           detailed
    FROM gone WHERE blocked ORDER BY id
), returned AS (
    INSERT INTO {schema}.ready (queue, visible_at, seq, bytes, acquired, failed, released, replayed, detailed)
    SELECT $1, (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint), seq, bytes, 0, 0, 0, replayed,
           detailed
    FROM gone WHERE NOT blocked
), counted AS (
    INSERT INTO {schema}.cause_changes (cause, count, bytes, ever, new, hour, attempts)
    SELECT cause, -count(*), -sum(bytes), 0, 0, 0, 0 FROM gone WHERE cause IS NOT NULL GROUP BY cause
)
SELECT count(*) FROM gone
