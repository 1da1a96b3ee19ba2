-- $1 seqs of replayed messages that were dead-lettered again, $2 the dead letters that they became, $3 their causes.
-- The version of an edited message stays its version.
WITH failed AS (
    UPDATE {schema}.items AS i SET state = 'failed again', away = NULL, again = died.id, cause = died.cause
    FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS died (seq, id, cause)
    WHERE i.seq = died.seq AND i.state = 'in flight'
    RETURNING i.operation, i.dead, died.id
), linked AS (
    UPDATE {schema}.dead AS d SET edited_as = failed.id FROM failed WHERE d.edited_as = failed.dead
    RETURNING d.id AS original, failed.id AS version
), versions AS (
    UPDATE {schema}.dead AS d SET edited_from = linked.original FROM linked WHERE d.id = linked.version
)
INSERT INTO {schema}.outcomes (operation, completed, failed, at)
SELECT operation, 0, count(*), (SELECT {schema}.now_ms()) FROM failed GROUP BY operation
