SELECT coalesce(max(id), 0) FROM {schema}.dead WHERE queue = $1
