-- $1 queue, $2 ids, $3 the feed that has handed them out, NULL for any.
WITH gone AS (
    DELETE FROM {schema}.dead
    WHERE queue = $1 AND id = ANY ($2) AND ($3::bigint IS NULL OR taken_by = $3)
    RETURNING id, seq, detailed, cause, bytes, edited_from
), without_message AS (
    DELETE FROM {schema}.messages WHERE seq = ANY (ARRAY(SELECT seq FROM gone))
), without_ledger AS (
    DELETE FROM {schema}.ledgers WHERE seq = ANY (ARRAY(SELECT seq FROM gone WHERE detailed))
), reopened AS (
    UPDATE {schema}.dead SET edited_as = NULL
    WHERE edited_as = ANY (ARRAY(SELECT id FROM gone WHERE edited_from IS NOT NULL))
), counted AS (
    INSERT INTO {schema}.cause_changes (cause, count, bytes, ever, new, hour, attempts)
    SELECT cause, -count(*), -sum(bytes), 0, 0, 0, 0 FROM gone WHERE cause IS NOT NULL GROUP BY cause
)
SELECT count(*) FROM gone
