-- $1 queue. How many milliseconds until a message can be claimed; negative or 0 if others are claiming one.
SELECT least(
    (SELECT visible_at FROM {schema}.ready WHERE queue = $1 ORDER BY visible_at, seq LIMIT 1),
    (SELECT until FROM {schema}.leased WHERE queue = $1 ORDER BY until, seq LIMIT 1)
) - floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
