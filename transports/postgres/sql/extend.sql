-- $1 seqs, $2 tokens, $3 queue, $4 lease in milliseconds.
UPDATE {schema}.leased AS l SET until = floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + $4
FROM unnest($1::bigint[], $2::bigint[]) AS held (seq, token)
WHERE l.seq = held.seq AND l.token = held.token AND l.queue = $3
RETURNING l.seq, l.until
