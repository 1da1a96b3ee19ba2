-- $1 seqs, $2 tokens, $3 queue, $4 failed, $5 released, $6 details of ledgers that changed, $7 codes, $8 reasons.
WITH gone AS (
    DELETE FROM {schema}.leased AS l
    USING unnest($1::bigint[], $2::bigint[], $4::integer[], $5::integer[], $6::text[], $7::text[], $8::text[])
        AS held (seq, token, failed, released, details, code, reason)
    WHERE l.seq = held.seq AND l.token = held.token AND l.queue = $3
    RETURNING l.queue, l.seq, l.bytes, l.acquired, l.replayed, l.detailed,
              held.failed, held.released, held.details, held.code, held.reason
), died AS (
    INSERT INTO {schema}.dead
        (queue, seq, reason_code, reason, died_at, bytes, acquired, failed, released, replayed, detailed)
    SELECT queue, seq, code, reason, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, bytes, acquired,
           failed, released, replayed, detailed OR details IS NOT NULL
    FROM gone
), recorded AS (
    INSERT INTO {schema}.ledgers (seq, details) SELECT seq, details FROM gone WHERE details IS NOT NULL
    ON CONFLICT (seq) DO UPDATE SET details = excluded.details
)
SELECT seq FROM gone
