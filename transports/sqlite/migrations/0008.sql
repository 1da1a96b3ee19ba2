-- Lists of everything go by id where a dead letter died here, which is their order of death, so that dead-lettering
-- pays for no index by time. Only those that arrived later than they died have one.
DROP INDEX bezoar_dead_by_death;
-- Arrivals have the order of ids, whichever clock of several processes they were written by.
UPDATE bezoar_dead SET at = sorted.latest
    FROM (SELECT id, max(at) OVER (ORDER BY id) AS latest FROM bezoar_dead) AS sorted
    WHERE sorted.id = bezoar_dead.id AND at < sorted.latest;
CREATE INDEX bezoar_dead_late_by_death ON bezoar_dead (died_at) WHERE died_at < at;

-- Rejections are found by the ids that an operator has at hand, the newest first, without reading the others.
ALTER TABLE bezoar_announced ADD COLUMN correlation_id TEXT;
UPDATE bezoar_announced
    SET correlation_id = (SELECT m.correlation_id FROM bezoar_messages AS m WHERE m.seq = bezoar_announced.seq);
CREATE INDEX bezoar_announced_by_message ON bezoar_announced (message_id, at, seq);
CREATE INDEX bezoar_announced_by_correlation ON bezoar_announced (correlation_id, at, seq)
    WHERE correlation_id IS NOT NULL;

-- Letters without a lasting id are recognized by their content if a broker delivers them again: which session took
-- one in (NULL for letters with an id), whether the broker was told to remove it, and which dead letter it became.
ALTER TABLE bezoar_taken ADD COLUMN session INTEGER;
ALTER TABLE bezoar_taken ADD COLUMN removing INTEGER NOT NULL DEFAULT 0;
ALTER TABLE bezoar_taken ADD COLUMN dead INTEGER;
CREATE INDEX bezoar_taken_by_content ON bezoar_taken (queue, digest, removing, session) WHERE session IS NOT NULL;

-- Checksums did not cover these two columns: what was stored with them is not compared.
UPDATE bezoar_messages SET checksum = NULL WHERE expires_at IS NOT NULL OR ordering_key IS NOT NULL;

-- The dead letter that this one may be a copy of.
ALTER TABLE bezoar_dead ADD COLUMN copy_of INTEGER;
