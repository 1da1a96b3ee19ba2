SELECT count(pg_notify($1, queue::text)) FROM unnest($2::integer[]) AS woken (queue)
