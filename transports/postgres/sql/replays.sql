-- $1 seqs. Which replay sent each message.
SELECT seq, operation FROM {schema}.items WHERE seq = ANY ($1) AND state = 'in flight'
