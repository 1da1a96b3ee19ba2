-- When a dead letter died, wherever that was. `at` is when it arrived here: it grows with the id, and expiry goes by it.
ALTER TABLE bezoar_dead ADD COLUMN died_at INTEGER NOT NULL DEFAULT 0;
UPDATE bezoar_dead SET died_at = at;

-- Lists are ordered by the time of death, so every way to a part of them has that order. Each index also has the id.
DROP INDEX bezoar_dead_by_cause;
DROP INDEX bezoar_dead_by_message;
DROP INDEX bezoar_dead_by_correlation;
DROP INDEX bezoar_dead_replayed;
DROP INDEX bezoar_dead_taken;
DROP INDEX bezoar_dead_versions;
CREATE INDEX bezoar_dead_by_death ON bezoar_dead (died_at);
CREATE INDEX bezoar_dead_by_cause ON bezoar_dead (cause, died_at);
CREATE INDEX bezoar_dead_by_message ON bezoar_dead (message_id, died_at);
CREATE INDEX bezoar_dead_by_correlation ON bezoar_dead (correlation_id, died_at) WHERE correlation_id IS NOT NULL;
CREATE INDEX bezoar_dead_replayed ON bezoar_dead (died_at) WHERE replayed > 0;
CREATE INDEX bezoar_dead_taken ON bezoar_dead (died_at) WHERE operation IS NOT NULL;
CREATE INDEX bezoar_dead_versions ON bezoar_dead (died_at) WHERE edited_as IS NOT NULL OR unapproved = 1;
-- Those that arrived later than they died: taken in from a broker, or imported.
CREATE INDEX bezoar_dead_late ON bezoar_dead (queue, died_at) WHERE died_at < at;

-- From a dead letter that was replayed to what became of it, and back.
CREATE INDEX bezoar_items_by_dead ON bezoar_items (dead);
CREATE INDEX bezoar_items_again ON bezoar_items (again) WHERE again IS NOT NULL;

-- Which other operations held selected dead letters when an operation was planned.
CREATE TABLE bezoar_operation_held (
    operation INTEGER NOT NULL,
    holder    INTEGER NOT NULL,
    count     INTEGER NOT NULL,
    PRIMARY KEY (operation, holder)
) STRICT, WITHOUT ROWID;

-- What is known under a stamp or an id; NULL for what is from before this version. Other content is a conflict.
ALTER TABLE bezoar_stamps ADD COLUMN digest INTEGER;
ALTER TABLE bezoar_once ADD COLUMN digest INTEGER;
