-- $1 seqs, $2 when each was due, $3 the token of the expired lease that each had, $4 token.
-- Undoes a claim whose deliveries reached no receiver, as if it had never happened.
WITH claimed AS (
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS claimed (seq, due_at, token)
), restored AS (
    UPDATE {schema}.leased AS l SET until = claimed.due_at, token = claimed.token, acquired = l.acquired - 1
    FROM claimed WHERE l.seq = claimed.seq AND l.token = $4 AND claimed.token IS NOT NULL
), returned AS (
    DELETE FROM {schema}.leased AS l USING claimed
    WHERE l.seq = claimed.seq AND l.token = $4 AND claimed.token IS NULL
    RETURNING l.queue, claimed.due_at, l.seq, l.bytes, l.acquired - 1, l.failed, l.released, l.replayed, l.detailed
)
INSERT INTO {schema}.ready SELECT * FROM returned
