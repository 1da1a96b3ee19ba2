-- $1 queue, $2 the feed, $3 ids, NULL for all that it has handed out. Gives dead letters back.
UPDATE {schema}.dead SET taken_until = 0, taken_by = NULL
WHERE queue = $1 AND taken_by = $2 AND ($3::bigint[] IS NULL OR id = ANY ($3))
