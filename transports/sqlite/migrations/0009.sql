-- The request that planned an operation, if its repetitions are to be recognized: the key that its actor chose, and a
-- digest of what was requested.
ALTER TABLE bezoar_operations ADD COLUMN request_key TEXT;
ALTER TABLE bezoar_operations ADD COLUMN request_digest BLOB;
CREATE INDEX bezoar_operations_by_request ON bezoar_operations (who, request_key) WHERE request_key IS NOT NULL;
