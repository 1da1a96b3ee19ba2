-- $1 queue, $2 ordering keys. Everybody locks keys in the same order, and before messages.
SELECT key FROM {schema}.ordering_keys WHERE queue = $1 AND key = ANY ($2) ORDER BY key FOR UPDATE
