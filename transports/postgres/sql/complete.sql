-- $1 seqs, $2 tokens, $3 queue.
WITH gone AS (
    DELETE FROM {schema}.leased AS l USING unnest($1::bigint[], $2::bigint[]) AS held (seq, token)
    WHERE l.seq = held.seq AND l.token = held.token AND l.queue = $3
    RETURNING l.seq, l.detailed
), without_message AS (
    DELETE FROM {schema}.messages WHERE seq = ANY (ARRAY(SELECT seq FROM gone))
), without_ledger AS (
    DELETE FROM {schema}.ledgers WHERE seq = ANY (ARRAY(SELECT seq FROM gone WHERE detailed))
)
SELECT seq FROM gone
