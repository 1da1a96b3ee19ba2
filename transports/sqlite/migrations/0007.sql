-- When a message expires, and what it must be handled in order with. Most messages have neither.
ALTER TABLE bezoar_messages ADD COLUMN expires_at INTEGER;
ALTER TABLE bezoar_messages ADD COLUMN ordering_key TEXT;

-- Ordering keys of which one message is in bezoar_waiting. Later ones of the same key are in bezoar_blocked, out of
-- the way of those that are claimed, until that one is done or dead.
CREATE TABLE bezoar_keys (
    queue INTEGER NOT NULL,
    key   TEXT    NOT NULL,
    PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE bezoar_blocked (
    queue      INTEGER NOT NULL,
    key        TEXT    NOT NULL,
    place      INTEGER NOT NULL, -- the order within the key
    visible_at INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    acquired   INTEGER NOT NULL,
    failed     INTEGER NOT NULL,
    released   INTEGER NOT NULL,
    replayed   INTEGER NOT NULL,
    history    INTEGER NOT NULL,
    PRIMARY KEY (queue, key, place)
) STRICT, WITHOUT ROWID;

ALTER TABLE bezoar_queues ADD COLUMN blocked INTEGER NOT NULL DEFAULT 0; -- how many rows of bezoar_blocked
