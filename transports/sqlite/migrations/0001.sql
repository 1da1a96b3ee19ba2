-- Where every message is. A message has one row in bezoar_messages for as long as it is here, and
-- beside it exactly one row in bezoar_waiting (ready, delayed or leased) or in bezoar_dead.
-- Times are milliseconds since 1970 (UTC).

CREATE TABLE bezoar_queues (
    id      INTEGER PRIMARY KEY,
    name    TEXT    NOT NULL UNIQUE,
    waiting INTEGER NOT NULL DEFAULT 0, -- how many rows of bezoar_waiting; counting a million takes half a second
    dead    INTEGER NOT NULL DEFAULT 0, -- how many rows of bezoar_dead
    clock   INTEGER NOT NULL DEFAULT 0  -- the latest time at which either changed
) STRICT;

-- What the sender made. Never updated. A seq is never given twice, so that nothing that is left of one
-- message can become part of another.
CREATE TABLE bezoar_messages (
    seq            INTEGER PRIMARY KEY AUTOINCREMENT,
    id             TEXT    NOT NULL,
    type           TEXT    NOT NULL,
    correlation_id TEXT,
    causation_id   TEXT,
    content_type   TEXT,
    headers        TEXT, -- a JSON object of texts; NULL if there are none
    time           INTEGER NOT NULL,
    body           BLOB    NOT NULL
) STRICT;

-- The hot table, small rows in the order in which they are claimed. visible_at is when a message can
-- be delivered; for a leased one, when its lease runs out.
CREATE TABLE bezoar_waiting (
    queue      INTEGER NOT NULL,
    visible_at INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    token      INTEGER, -- which lease; NULL if it is not leased
    acquired   INTEGER NOT NULL,
    failed     INTEGER NOT NULL,
    released   INTEGER NOT NULL,
    replayed   INTEGER NOT NULL,
    history    INTEGER NOT NULL DEFAULT 0, -- whether it has rows in bezoar_attempts, which most have not
    PRIMARY KEY (queue, visible_at, seq)
) STRICT, WITHOUT ROWID;

-- The failed tries of messages that are still here, in the order of place.
CREATE TABLE bezoar_attempts (
    seq         INTEGER NOT NULL,
    place       INTEGER NOT NULL,
    generation  INTEGER NOT NULL,
    number      INTEGER NOT NULL,
    tried       INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    duration_ms INTEGER NOT NULL,
    kind        TEXT    NOT NULL,
    code        TEXT    NOT NULL,
    detail      TEXT    NOT NULL,
    PRIMARY KEY (seq, place)
) STRICT, WITHOUT ROWID;

-- Ids that are accepted once, and until when.
CREATE TABLE bezoar_once (
    queue INTEGER NOT NULL,
    id    TEXT    NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (queue, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX bezoar_once_by_end ON bezoar_once (until);

CREATE TABLE bezoar_dead (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    queue       INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    reason_code TEXT    NOT NULL,
    reason      TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    acquired    INTEGER NOT NULL,
    failed      INTEGER NOT NULL,
    released    INTEGER NOT NULL,
    replayed    INTEGER NOT NULL,
    history     INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX bezoar_dead_by_queue ON bezoar_dead (queue, id);

-- For people with the sqlite3 program; bodies, header values and error texts are left out.
CREATE VIEW bezoar_dead_letters AS
SELECT d.id, q.name AS queue, m.id AS message_id, m.type, m.correlation_id, d.reason,
       d.failed, d.replayed, datetime(d.at / 1000, 'unixepoch') AS at, length(m.body) AS bytes
FROM bezoar_dead AS d
JOIN bezoar_queues AS q ON q.id = d.queue
JOIN bezoar_messages AS m ON m.seq = d.seq;
