SELECT id FROM {schema}.queues WHERE name = $1
