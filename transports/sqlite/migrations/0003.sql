-- Queues of brokers: their dead letters are taken in, and what is replayed waits here for its way back.
ALTER TABLE bezoar_queues ADD COLUMN remote INTEGER NOT NULL DEFAULT 0;

-- The id by which a broker has a message that was replayed, until its outcome is known.
ALTER TABLE bezoar_items ADD COLUMN away TEXT;

CREATE INDEX bezoar_items_away ON bezoar_items (operation, away) WHERE away IS NOT NULL;

-- What was taken in, and when: a broker may send a dead letter again that it was told to remove.
CREATE TABLE bezoar_taken (
    queue  INTEGER NOT NULL,
    letter INTEGER NOT NULL,
    digest INTEGER NOT NULL, -- of its content: ids of letters are made by several processes
    at     INTEGER NOT NULL,
    PRIMARY KEY (queue, letter, digest)
) STRICT, WITHOUT ROWID;

CREATE INDEX bezoar_taken_by_time ON bezoar_taken (at);

-- What is known of messages that a broker is about to set aside by itself, and that it cannot say. Their tries are
-- in bezoar_attempts; their row in bezoar_messages only gives them a number.
CREATE TABLE bezoar_announced (
    queue       INTEGER NOT NULL,
    message_id  TEXT    NOT NULL,
    seq         INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    reason_code TEXT    NOT NULL,
    reason      TEXT    NOT NULL,
    acquired    INTEGER NOT NULL,
    failed      INTEGER NOT NULL,
    released    INTEGER NOT NULL,
    replayed    INTEGER NOT NULL,
    history     INTEGER NOT NULL,
    PRIMARY KEY (queue, message_id, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX bezoar_announced_by_time ON bezoar_announced (at);
