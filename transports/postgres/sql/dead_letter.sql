-- $1 seqs, $2 tokens, $3 queue, $4 failed, $5 released, $6 details of ledgers that changed, $7 codes, $8 reasons,
-- $9 message ids, $10 correlation ids, $11 causes, $12 message types, $13 kinds and $14 codes of the last failures,
-- $15 the version of the rule that grouped. Causes are not touched: what is added to them is only appended.
WITH clock AS MATERIALIZED (
    SELECT {schema}.now_ms() AS now
), gone AS MATERIALIZED (
    DELETE FROM {schema}.leased AS l
    USING unnest($1::bigint[], $2::bigint[], $4::integer[], $5::integer[], $6::text[], $7::text[], $8::text[],
                 $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[])
        AS held (seq, token, failed, released, details, reason_code, reason, message_id, correlation_id, cause, type,
                 kind, code)
    WHERE l.seq = held.seq AND l.token = held.token AND l.queue = $3
    RETURNING l.queue, l.seq, l.bytes, l.acquired, l.replayed, l.detailed, held.failed, held.released, held.details,
              held.reason_code, held.reason, held.message_id, held.correlation_id, held.cause, held.type, held.kind,
              held.code
), died AS (
    INSERT INTO {schema}.dead
        (queue, seq, reason_code, reason, died_at, arrived_at, bytes, acquired, failed, released, replayed, detailed,
         message_id, correlation_id, cause, kind, code)
    SELECT queue, seq, reason_code, reason, now, now, bytes, acquired, failed, released, replayed,
           detailed OR details IS NOT NULL, message_id, correlation_id, cause, kind, code
    FROM gone, clock ORDER BY seq
    RETURNING seq, id
), recorded AS (
    INSERT INTO {schema}.ledgers (seq, details) SELECT seq, details FROM gone WHERE details IS NOT NULL
    ON CONFLICT (seq) DO UPDATE SET details = excluded.details
), counted AS (
    INSERT INTO {schema}.cause_changes
        (cause, version, queue, type, kind, code, count, bytes, ever, new, hour, attempts, first_seen, last_seen)
    SELECT cause, $15, $3, type, kind, code, count(*), sum(bytes), count(*), count(*),
           (SELECT now / 3600000 FROM clock), max(failed), (SELECT now FROM clock), (SELECT now FROM clock)
    FROM gone GROUP BY cause, type, kind, code
)
SELECT seq, id FROM died
