-- $1 seqs of replayed messages that were completed. One that was on its way to a broker has only arrived there.
WITH done AS (
    UPDATE {schema}.items SET state = 'completed'
    WHERE seq = ANY ($1) AND state = 'in flight' AND away IS NULL
    RETURNING operation
)
INSERT INTO {schema}.outcomes (operation, completed, failed, at)
SELECT operation, count(*), 0, (SELECT {schema}.now_ms()) FROM done GROUP BY operation
