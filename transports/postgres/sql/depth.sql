-- $1 queue: ready, delayed, leased and dead messages, and since when the oldest ready and the oldest dead one is so.
WITH clock AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
), waiting AS (
    SELECT count(*) FILTER (WHERE visible_at <= (SELECT now FROM clock)) AS ready,
           count(*) FILTER (WHERE visible_at > (SELECT now FROM clock)) AS delayed,
           min(visible_at) FILTER (WHERE visible_at <= (SELECT now FROM clock)) AS oldest
    FROM {schema}.ready WHERE queue = $1
), held AS (
    SELECT count(*) FILTER (WHERE until <= (SELECT now FROM clock)) AS expired,
           count(*) FILTER (WHERE until > (SELECT now FROM clock)) AS leased,
           min(until) FILTER (WHERE until <= (SELECT now FROM clock)) AS oldest
    FROM {schema}.leased WHERE queue = $1
)
SELECT waiting.ready + held.expired,
       waiting.delayed + (SELECT count(*) FROM {schema}.blocked WHERE queue = $1),
       held.leased,
       (SELECT count(*) FROM {schema}.dead WHERE queue = $1),
       least(waiting.oldest, held.oldest),
       least(
           (SELECT died_at FROM {schema}.dead WHERE queue = $1 ORDER BY id LIMIT 1),
           (SELECT min(died_at) FROM {schema}.dead WHERE queue = $1 AND died_at < arrived_at)
       )
FROM waiting, held
