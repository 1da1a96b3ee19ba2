-- Letters without a lasting id are recognized by their content if a broker delivers them again: which session took
-- one in (NULL for letters with an id), whether the broker was told to remove it, and which dead letter it became.
ALTER TABLE bezoar_taken ADD COLUMN session INTEGER;
ALTER TABLE bezoar_taken ADD COLUMN removing INTEGER NOT NULL DEFAULT 0;
ALTER TABLE bezoar_taken ADD COLUMN dead INTEGER;
CREATE INDEX bezoar_taken_by_content ON bezoar_taken (queue, digest) WHERE session IS NOT NULL;

-- The dead letter that this one may be a copy of.
ALTER TABLE bezoar_dead ADD COLUMN copy_of INTEGER;
