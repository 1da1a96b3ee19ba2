-- The catalogue: causes of dead letters, what operators do about them, and who did what.

-- What lists and filters need, beside the dead letter itself: looking it up in bezoar_messages would read
-- pages full of bodies, and an index there would be paid for by every message that never dies.
ALTER TABLE bezoar_dead ADD COLUMN message_id TEXT NOT NULL DEFAULT '';
ALTER TABLE bezoar_dead ADD COLUMN correlation_id TEXT;
ALTER TABLE bezoar_dead ADD COLUMN cause INTEGER; -- bezoar_causes.number; NULL until it is grouped
ALTER TABLE bezoar_dead ADD COLUMN operation INTEGER; -- who took it last; it is free once that has ended
ALTER TABLE bezoar_dead ADD COLUMN edited_from INTEGER; -- the dead letter that this is a version of
ALTER TABLE bezoar_dead ADD COLUMN edited_as INTEGER; -- the version that takes its place; 0 if that is elsewhere
ALTER TABLE bezoar_dead ADD COLUMN edited_by TEXT; -- who made the version
ALTER TABLE bezoar_dead ADD COLUMN unapproved INTEGER NOT NULL DEFAULT 0; -- whether somebody else must approve

UPDATE bezoar_dead SET
    message_id = coalesce((SELECT m.id FROM bezoar_messages AS m WHERE m.seq = bezoar_dead.seq), ''),
    correlation_id = (SELECT m.correlation_id FROM bezoar_messages AS m WHERE m.seq = bezoar_dead.seq);

CREATE INDEX bezoar_dead_by_cause ON bezoar_dead (cause); -- and by id within, as every index here
CREATE INDEX bezoar_dead_by_message ON bezoar_dead (message_id);
CREATE INDEX bezoar_dead_by_correlation ON bezoar_dead (correlation_id) WHERE correlation_id IS NOT NULL;
-- The few that are not as most are. Those that are pay nothing.
CREATE INDEX bezoar_dead_replayed ON bezoar_dead (id) WHERE replayed > 0;
CREATE INDEX bezoar_dead_taken ON bezoar_dead (id) WHERE operation IS NOT NULL;
CREATE INDEX bezoar_dead_by_version ON bezoar_dead (edited_as) WHERE edited_as IS NOT NULL;
CREATE INDEX bezoar_dead_versions ON bezoar_dead (id) WHERE edited_as IS NOT NULL OR unapproved = 1;

-- Groups of dead letters that failed the same way. A number is never given twice.
CREATE TABLE bezoar_causes (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    id         TEXT    NOT NULL UNIQUE, -- v1:7f3a…
    version    INTEGER NOT NULL, -- of the rule that grouped
    queue      INTEGER NOT NULL,
    type       TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    code       TEXT    NOT NULL,
    count      INTEGER NOT NULL DEFAULT 0, -- how many rows of bezoar_dead
    ever       INTEGER NOT NULL DEFAULT 0,
    hour       INTEGER NOT NULL DEFAULT 0, -- which hour since 1970 the next two are of
    this_hour  INTEGER NOT NULL DEFAULT 0,
    last_hour  INTEGER NOT NULL DEFAULT 0,
    attempts   INTEGER NOT NULL DEFAULT 0, -- the most that any of them had
    first_seen INTEGER NOT NULL,
    last_seen  INTEGER NOT NULL,
    state      TEXT    NOT NULL DEFAULT 'open',
    note       TEXT,
    note_by    TEXT,
    note_at    INTEGER
) STRICT;

-- Replays and discards of frozen selections.
CREATE TABLE bezoar_operations (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    task       TEXT    NOT NULL, -- replay or discard
    canary     INTEGER NOT NULL,
    per_second REAL,
    stop_after INTEGER,
    ids        TEXT    NOT NULL, -- same or new
    state      TEXT    NOT NULL, -- freezing and void are not shown to anybody
    who        TEXT    NOT NULL,
    why        TEXT    NOT NULL,
    planned_at INTEGER NOT NULL,
    touched_at INTEGER NOT NULL, -- when its selection last grew
    ended_at   INTEGER,
    stopped    TEXT,
    total      INTEGER NOT NULL DEFAULT 0,
    refused    INTEGER NOT NULL DEFAULT 0,
    done       INTEGER NOT NULL DEFAULT 0,
    completed  INTEGER NOT NULL DEFAULT 0,
    failed     INTEGER NOT NULL DEFAULT 0,
    place      INTEGER NOT NULL DEFAULT 0 -- the last item that had its turn
) STRICT;

CREATE INDEX bezoar_operations_unended ON bezoar_operations (id)
WHERE state NOT IN ('cancelled', 'ended', 'void');

-- How many of an operation go where.
CREATE TABLE bezoar_operation_queues (
    operation INTEGER NOT NULL,
    queue     INTEGER NOT NULL,
    count     INTEGER NOT NULL,
    PRIMARY KEY (operation, queue)
) STRICT, WITHOUT ROWID;

-- What became of each message of an operation.
CREATE TABLE bezoar_items (
    operation  INTEGER NOT NULL,
    place      INTEGER NOT NULL,
    dead       INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    was        INTEGER, -- the seq before it was sent under a new id
    message_id TEXT    NOT NULL,
    queue      INTEGER NOT NULL,
    state      TEXT    NOT NULL, -- waiting, in flight, completed, failed again, discarded, left
    again      INTEGER, -- the dead letter that it became
    cause      TEXT,
    PRIMARY KEY (operation, place)
) STRICT, WITHOUT ROWID;

CREATE INDEX bezoar_items_by_seq ON bezoar_items (seq);

-- What was imported, and when, so that it is imported once.
CREATE TABLE bezoar_stamps (
    stamp TEXT    NOT NULL PRIMARY KEY,
    at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX bezoar_stamps_by_time ON bezoar_stamps (at);

-- Who did what. Each hash is of its row and of the hash before; the last one is also in bezoar_meta.
CREATE TABLE bezoar_audit (
    number INTEGER PRIMARY KEY,
    at     INTEGER NOT NULL,
    who    TEXT    NOT NULL,
    "from" TEXT    NOT NULL,
    verb   TEXT    NOT NULL,
    target TEXT    NOT NULL,
    why    TEXT    NOT NULL,
    hash   BLOB    NOT NULL
) STRICT;

CREATE TABLE bezoar_settings (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- A secret of this database, without which nobody can try out which text a cause was made from.
INSERT INTO bezoar_meta VALUES ('key', randomblob(32)) ON CONFLICT DO NOTHING;
