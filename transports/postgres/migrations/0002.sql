-- The catalogue: causes of dead letters, what operators do about them, and who did what.

-- The time of the catalogue. One place, so that all gateways have the same, and so that a test can replace it.
CREATE FUNCTION {schema}.now_ms() RETURNS bigint LANGUAGE sql VOLATILE
AS 'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint';

-- Queues of brokers: their dead letters are taken in, and what is replayed waits here for its way back.
ALTER TABLE {schema}.queues ADD COLUMN remote boolean NOT NULL DEFAULT false;

-- What lists and filters need, beside the dead letter itself, so that they read no bodies.
ALTER TABLE {schema}.dead
    ADD COLUMN arrived_at     bigint  NOT NULL DEFAULT 0, -- when it arrived here; it may have died elsewhere, earlier
    ADD COLUMN message_id     text    COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN correlation_id text    COLLATE "C",
    ADD COLUMN kind           text    COLLATE "C", -- of the last failure, and its code; NULL until it is grouped
    ADD COLUMN code           text    COLLATE "C",
    ADD COLUMN cause          text    COLLATE "C", -- v1:7f3a…; NULL until it is grouped
    ADD COLUMN operation      bigint, -- who took it last; it is free once that has ended
    ADD COLUMN edited_from    bigint, -- the dead letter that this is a version of
    ADD COLUMN edited_as      bigint, -- the version that takes its place; 0 if that is elsewhere
    ADD COLUMN edited_by      text, -- who made the version
    ADD COLUMN unapproved     boolean NOT NULL DEFAULT false, -- whether somebody else must approve
    ADD COLUMN copy_of        bigint; -- the dead letter that this one may be a copy of
UPDATE {schema}.dead AS d SET
    arrived_at = died_at,
    message_id = coalesce((SELECT m.id FROM {schema}.messages AS m WHERE m.seq = d.seq), ''),
    correlation_id = (SELECT m.correlation_id FROM {schema}.messages AS m WHERE m.seq = d.seq);

-- Lists are ordered by the time of death, so every way to a part of them has that order.
CREATE INDEX dead_by_death ON {schema}.dead (died_at, id);
CREATE INDEX dead_by_cause ON {schema}.dead (cause, died_at, id);
CREATE INDEX dead_by_message ON {schema}.dead (message_id, died_at, id);
CREATE INDEX dead_by_correlation ON {schema}.dead (correlation_id, died_at, id) WHERE correlation_id IS NOT NULL;
CREATE INDEX dead_by_arrival ON {schema}.dead (arrived_at, id);
-- The few that are not as most are. Those that are pay nothing.
CREATE INDEX dead_late ON {schema}.dead (queue, died_at) WHERE died_at < arrived_at;
CREATE INDEX dead_replayed ON {schema}.dead (died_at, id) WHERE replayed > 0;
CREATE INDEX dead_taken ON {schema}.dead (died_at, id) WHERE operation IS NOT NULL;
CREATE INDEX dead_versions ON {schema}.dead (died_at, id) WHERE edited_as IS NOT NULL OR unapproved;
CREATE INDEX dead_by_version ON {schema}.dead (edited_as) WHERE edited_as IS NOT NULL;
CREATE INDEX dead_ungrouped ON {schema}.dead (id) WHERE cause IS NULL;

-- Groups of dead letters that failed the same way. Who writes here holds an advisory lock, so nobody else waits for
-- these rows: what happens to dead letters is only appended to cause_changes, and added up from time to time.
CREATE TABLE {schema}.causes (
    id         text    COLLATE "C" PRIMARY KEY, -- v1:7f3a…
    version    integer NOT NULL, -- of the rule that grouped
    queue      integer NOT NULL,
    type       text    COLLATE "C" NOT NULL,
    kind       text    COLLATE "C" NOT NULL,
    code       text    COLLATE "C" NOT NULL,
    count      bigint  NOT NULL, -- how many rows of dead
    bytes      bigint  NOT NULL, -- of their bodies
    ever       bigint  NOT NULL,
    hour       bigint  NOT NULL, -- which hour since 1970 the next two are of
    this_hour  bigint  NOT NULL,
    last_hour  bigint  NOT NULL,
    attempts   integer NOT NULL, -- the most that any of them had
    first_seen bigint  NOT NULL,
    last_seen  bigint  NOT NULL,
    state      text    COLLATE "C" NOT NULL,
    note       text,
    note_by    text,
    note_at    bigint
);

-- What transactions add to causes, one row per cause and hour of death. Only appended; whoever adds it up removes it.
CREATE TABLE {schema}.cause_changes (
    cause      text    COLLATE "C" NOT NULL,
    version    integer, -- NULL, as the next four, where dead letters only left
    queue      integer,
    type       text    COLLATE "C",
    kind       text    COLLATE "C",
    code       text    COLLATE "C",
    count      bigint  NOT NULL,
    bytes      bigint  NOT NULL,
    ever       bigint  NOT NULL,
    new        bigint  NOT NULL, -- how many were newly dead-lettered
    hour       bigint  NOT NULL, -- in which hour they died
    attempts   integer NOT NULL,
    first_seen bigint, -- NULL if none was newly dead-lettered
    last_seen  bigint
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, vacuum_truncate = off);

-- Causes as they are now.
CREATE VIEW {schema}.cause_totals AS
SELECT id, max(version) AS version, max(queue) AS queue, max(type) AS type, max(kind) AS kind, max(code) AS code,
       sum(count)::bigint AS count, sum(bytes)::bigint AS bytes, sum(ever)::bigint AS ever,
       sum(this_hour)::bigint AS this_hour, sum(last_hour)::bigint AS last_hour, max(attempts) AS attempts,
       min(first_seen) AS first_seen, max(last_seen) AS last_seen,
       CASE WHEN max(state) = 'resolved' AND sum(new) > 0 THEN 'regressed' ELSE coalesce(max(state), 'open') END AS state,
       max(note) AS note, max(note_by) AS note_by, max(note_at) AS note_at
FROM (
    SELECT id, version, queue, type, kind, code, count, bytes, ever, 0 AS new,
           CASE hour WHEN (SELECT {schema}.now_ms() / 3600000) THEN this_hour ELSE 0 END AS this_hour,
           CASE hour WHEN (SELECT {schema}.now_ms() / 3600000) THEN last_hour
                     WHEN (SELECT {schema}.now_ms() / 3600000 - 1) THEN this_hour ELSE 0 END AS last_hour,
           attempts, first_seen, last_seen, state, note, note_by, note_at
    FROM {schema}.causes
    UNION ALL
    SELECT cause, version, queue, type, kind, code, count, bytes, ever, new,
           CASE WHEN hour >= (SELECT {schema}.now_ms() / 3600000) THEN new ELSE 0 END,
           CASE WHEN hour = (SELECT {schema}.now_ms() / 3600000 - 1) THEN new ELSE 0 END,
           attempts, first_seen, last_seen, NULL, NULL, NULL, NULL
    FROM {schema}.cause_changes
) AS parts
GROUP BY id;

-- Replays and discards of frozen selections.
CREATE TABLE {schema}.operations (
    id         bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task       text    COLLATE "C" NOT NULL, -- replay or discard
    canary     bigint  NOT NULL,
    per_second double precision,
    stop_after bigint,
    ids        text    COLLATE "C" NOT NULL, -- same or new
    state      text    COLLATE "C" NOT NULL, -- freezing and void are not shown to anybody
    who        text    NOT NULL,
    why        text    NOT NULL,
    planned_at bigint  NOT NULL,
    touched_at bigint  NOT NULL, -- when its selection last grew
    ended_at   bigint,
    stopped    text,
    total      bigint  NOT NULL DEFAULT 0,
    refused    bigint  NOT NULL DEFAULT 0,
    done       bigint  NOT NULL DEFAULT 0,
    completed  bigint  NOT NULL DEFAULT 0,
    failed     bigint  NOT NULL DEFAULT 0,
    place      bigint  NOT NULL DEFAULT 0, -- the last item that had its turn
    request_key    text  COLLATE "C", -- which the actor chose, if repetitions of the request are to be recognized
    request_digest bytea -- of what was requested
);
CREATE INDEX operations_by_request ON {schema}.operations (who, request_key) WHERE request_key IS NOT NULL;
CREATE INDEX operations_unended ON {schema}.operations (id) WHERE state NOT IN ('cancelled', 'ended', 'void');
CREATE INDEX operations_void ON {schema}.operations (id) WHERE state = 'void';

-- How many of an operation go where.
CREATE TABLE {schema}.operation_queues (
    operation bigint  NOT NULL,
    queue     integer NOT NULL,
    count     bigint  NOT NULL,
    PRIMARY KEY (operation, queue)
);

-- Which other operations held selected dead letters when an operation was planned.
CREATE TABLE {schema}.operation_held (
    operation bigint NOT NULL,
    holder    bigint NOT NULL,
    count     bigint NOT NULL,
    PRIMARY KEY (operation, holder)
);

-- What became of each message of an operation.
CREATE TABLE {schema}.items (
    operation  bigint  NOT NULL,
    place      bigint  NOT NULL,
    dead       bigint  NOT NULL,
    seq        bigint  NOT NULL,
    message_id text    COLLATE "C" NOT NULL,
    queue      integer NOT NULL,
    state      text    COLLATE "C" NOT NULL, -- waiting, in flight, completed, failed again, discarded, left
    again      bigint, -- the dead letter that it became
    cause      text    COLLATE "C",
    away       text    COLLATE "C", -- the id by which a broker has it, until its outcome is known
    PRIMARY KEY (operation, place)
);
CREATE INDEX items_by_seq ON {schema}.items (seq);
CREATE INDEX items_by_dead ON {schema}.items (dead);
CREATE INDEX items_again ON {schema}.items (again) WHERE again IS NOT NULL;
CREATE INDEX items_away ON {schema}.items (operation, away) WHERE away IS NOT NULL;

-- Outcomes of replayed messages that are not yet added to operations. Only appended, as cause_changes.
CREATE TABLE {schema}.outcomes (
    operation bigint NOT NULL,
    completed bigint NOT NULL,
    failed    bigint NOT NULL,
    at        bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, vacuum_truncate = off);
CREATE INDEX outcomes_by_operation ON {schema}.outcomes (operation);

-- Operations as they are now. One has ended with its last outcome, whoever notices.
CREATE VIEW {schema}.operation_progress AS
SELECT id, task, canary, per_second, stop_after, ids,
       CASE WHEN over THEN 'ended' ELSE state END AS state,
       who, why, planned_at, CASE WHEN over THEN coalesce(ended_at, last_outcome) ELSE ended_at END AS ended_at,
       stopped, total, refused, done, completed, failed
FROM (
    SELECT o.id, o.task, o.canary, o.per_second, o.stop_after, o.ids, o.state, o.who, o.why, o.planned_at, o.ended_at,
           o.stopped, o.total, o.refused, o.done, o.completed + n.completed AS completed, o.failed + n.failed AS failed,
           n.last_outcome,
           o.state IN ('running', 'paused', 'stopped') AND o.done >= o.total
               AND (o.task = 'discard' OR o.completed + n.completed + o.failed + n.failed >= o.done) AS over
    FROM {schema}.operations AS o
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(completed), 0)::bigint AS completed, coalesce(sum(failed), 0)::bigint AS failed,
               max(at) AS last_outcome
        FROM {schema}.outcomes WHERE operation = o.id
    ) AS n
) AS progress;

-- What was imported, when, and a digest of its body, so that it is imported once.
CREATE TABLE {schema}.stamps (
    stamp  text   COLLATE "C" PRIMARY KEY,
    at     bigint NOT NULL,
    digest bigint NOT NULL
);
CREATE INDEX stamps_by_time ON {schema}.stamps (at);

-- What was taken in, and when: a broker may deliver a dead letter again that it was told to remove.
CREATE TABLE {schema}.taken (
    queue    integer NOT NULL,
    letter   bigint  NOT NULL,
    digest   bigint  NOT NULL, -- of its content: ids of letters are made by several processes
    at       bigint  NOT NULL,
    session  bigint, -- which session took it in; NULL for letters with a lasting id
    removing boolean NOT NULL DEFAULT false, -- whether the broker was told to remove it
    dead     bigint  NOT NULL, -- which dead letter it became
    PRIMARY KEY (queue, letter, digest)
);
CREATE INDEX taken_by_time ON {schema}.taken (at);
CREATE INDEX taken_by_content ON {schema}.taken (queue, digest, removing, session) WHERE session IS NOT NULL;

-- What is known of messages that a broker is about to set aside by itself, and that it cannot say.
CREATE TABLE {schema}.announced (
    queue          integer NOT NULL,
    message_id     text    COLLATE "C" NOT NULL,
    number         bigint  GENERATED ALWAYS AS IDENTITY,
    at             bigint  NOT NULL,
    type           text    COLLATE "C" NOT NULL,
    correlation_id text    COLLATE "C",
    reason_code    text    NOT NULL,
    reason         text    NOT NULL,
    acquired       integer NOT NULL,
    failed         integer NOT NULL,
    released       integer NOT NULL,
    replayed       integer NOT NULL,
    details        text, -- as in ledgers
    PRIMARY KEY (queue, message_id, number)
);
CREATE INDEX announced_by_time ON {schema}.announced (at, number);
CREATE INDEX announced_by_message ON {schema}.announced (message_id, at, number);
CREATE INDEX announced_by_correlation ON {schema}.announced (correlation_id, at, number)
    WHERE correlation_id IS NOT NULL;

-- Who did what. Each hash is of its row and of the hash before. The head is locked by whoever appends, so that there
-- is one chain, however many gateways write it.
CREATE TABLE {schema}.audit (
    number  bigint PRIMARY KEY,
    at      bigint NOT NULL,
    who     text   NOT NULL,
    address text   NOT NULL,
    verb    text   NOT NULL,
    target  text   NOT NULL,
    why     text   NOT NULL,
    hash    bytea  NOT NULL
);
CREATE TABLE {schema}.audit_head (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    count    bigint  NOT NULL,
    hash     bytea   NOT NULL
);
INSERT INTO {schema}.audit_head (count, hash) VALUES (0, decode(repeat('00', 32), 'hex'));

CREATE TABLE {schema}.settings (
    name  text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);

-- A secret of this store. It keeps others from guessing the text that a cause was made from.
CREATE TABLE {schema}.store_key (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    key      bytea   NOT NULL
);
INSERT INTO {schema}.store_key (key)
VALUES (decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'));

-- Which gateway may do what only one may do, and until when. The number rises with every change of the holder: what an
-- earlier holder still does is refused.
CREATE TABLE {schema}.leaders (
    role   text   COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL,
    holder text   NOT NULL,
    until  bigint NOT NULL
) WITH (fillfactor = 50);
