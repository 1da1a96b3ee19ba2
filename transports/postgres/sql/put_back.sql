-- $1 seqs, $2 tokens, $3 queue, $4 delays in milliseconds, $5 failed, $6 released, $7 details of ledgers that changed.
WITH gone AS (
    DELETE FROM {schema}.leased AS l
    USING unnest($1::bigint[], $2::bigint[], $4::bigint[], $5::integer[], $6::integer[], $7::text[])
        AS held (seq, token, delay_ms, failed, released, details)
    WHERE l.seq = held.seq AND l.token = held.token AND l.queue = $3
    RETURNING l.queue, l.seq, l.bytes, l.acquired, l.replayed, l.detailed,
              held.delay_ms, held.failed, held.released, held.details
), returned AS (
    INSERT INTO {schema}.ready (queue, visible_at, seq, bytes, acquired, failed, released, replayed, detailed)
    SELECT queue, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + delay_ms, seq, bytes, acquired, failed,
           released, replayed, detailed OR details IS NOT NULL
    FROM gone
), recorded AS (
    INSERT INTO {schema}.ledgers (seq, details) SELECT seq, details FROM gone WHERE details IS NOT NULL
    ON CONFLICT (seq) DO UPDATE SET details = excluded.details
)
SELECT seq FROM gone
