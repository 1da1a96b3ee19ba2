-- $1 queue, $2 ids, $3 the feed that has handed them out, NULL for any.
WITH gone AS (
    DELETE FROM {schema}.dead
    WHERE queue = $1 AND id = ANY ($2) AND ($3::bigint IS NULL OR taken_by = $3)
    RETURNING seq, detailed
), without_message AS (
    DELETE FROM {schema}.messages WHERE seq = ANY (ARRAY(SELECT seq FROM gone))
), without_ledger AS (
    DELETE FROM {schema}.ledgers WHERE seq = ANY (ARRAY(SELECT seq FROM gone WHERE detailed))
)
SELECT count(*) FROM gone
