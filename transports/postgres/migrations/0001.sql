-- Where every message is. A message has one row in messages for as long as it is here, and beside it exactly one row
-- in ready (ready or delayed), leased, blocked or dead. Times are milliseconds since 1970 (UTC), by the clock of this
-- server.

CREATE TABLE {schema}.queues (
    id   integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE
);

CREATE SEQUENCE {schema}.message_seq;

-- What the sender made. Never updated, and only read by its key.
CREATE TABLE {schema}.messages (
    seq            bigint  PRIMARY KEY DEFAULT nextval('{schema_text}.message_seq'),
    queue          integer NOT NULL,
    id             text    COLLATE "C" NOT NULL,
    type           text    COLLATE "C" NOT NULL,
    correlation_id text    COLLATE "C",
    causation_id   text    COLLATE "C",
    content_type   text    COLLATE "C",
    headers        text    COLLATE "C", -- a JSON object of texts; NULL if there are none
    time           bigint  NOT NULL,
    expires_at     bigint,
    ordering_key   text    COLLATE "C",
    body           bytea   NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off
);
-- Bodies live for seconds: compressing them would cost more than it saves.
ALTER TABLE {schema}.messages ALTER COLUMN body SET STORAGE EXTERNAL;

-- The hot table: small rows in the order in which they are claimed. Rows are inserted and deleted, never updated, so
-- that a claim writes no index entry here. Truncating would lock the table while messages wait.
CREATE TABLE {schema}.ready (
    queue      integer NOT NULL,
    visible_at bigint  NOT NULL, -- when the message can be delivered
    seq        bigint  NOT NULL,
    bytes      integer NOT NULL, -- of its body
    acquired   integer NOT NULL,
    failed     integer NOT NULL,
    released   integer NOT NULL,
    replayed   integer NOT NULL,
    detailed   boolean NOT NULL, -- whether it has a row in ledgers, which most have not
    PRIMARY KEY (queue, visible_at, seq)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off
);

-- Messages that a worker has. Only the holder of the token changes a row, until the lease ends.
CREATE TABLE {schema}.leased (
    seq      bigint  PRIMARY KEY,
    queue    integer NOT NULL,
    until    bigint  NOT NULL,
    token    bigint  NOT NULL,
    bytes    integer NOT NULL,
    acquired integer NOT NULL,
    failed   integer NOT NULL,
    released integer NOT NULL,
    replayed integer NOT NULL,
    detailed boolean NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off
);
CREATE INDEX leased_by_end ON {schema}.leased (queue, until, seq);

-- The failed tries of a message, and the summary of its uncounted failures, as JSON. Few messages have one.
CREATE TABLE {schema}.ledgers (
    seq     bigint PRIMARY KEY,
    details text   NOT NULL
);

-- Ids that are accepted once, and until when.
CREATE TABLE {schema}.once (
    queue  integer NOT NULL,
    id     text    COLLATE "C" NOT NULL,
    until  bigint  NOT NULL,
    digest bigint  NOT NULL, -- of the body: another body under the same id is a conflict
    owner  bigint  NOT NULL, -- which call of send stored it
    PRIMARY KEY (queue, id)
);
CREATE INDEX once_by_end ON {schema}.once (until);

-- Ordering keys of which one message is in ready or leased. Later ones of the same key are in blocked, out of the way
-- of those that are claimed, until that one is completed or dead.
CREATE TABLE {schema}.ordering_keys (
    queue integer NOT NULL,
    key   text    COLLATE "C" NOT NULL,
    PRIMARY KEY (queue, key)
);

CREATE TABLE {schema}.blocked (
    queue      integer NOT NULL,
    key        text    COLLATE "C" NOT NULL,
    place      bigint  GENERATED ALWAYS AS IDENTITY, -- the order within the key
    visible_at bigint  NOT NULL,
    seq        bigint  NOT NULL,
    bytes      integer NOT NULL,
    acquired   integer NOT NULL,
    failed     integer NOT NULL,
    released   integer NOT NULL,
    replayed   integer NOT NULL,
    detailed   boolean NOT NULL,
    PRIMARY KEY (queue, key, place)
);

CREATE TABLE {schema}.dead (
    id          bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue       integer NOT NULL,
    seq         bigint  NOT NULL,
    reason_code text    NOT NULL,
    reason      text    NOT NULL,
    died_at     bigint  NOT NULL,
    bytes       integer NOT NULL,
    acquired    integer NOT NULL,
    failed      integer NOT NULL,
    released    integer NOT NULL,
    replayed    integer NOT NULL,
    detailed    boolean NOT NULL,
    taken_until bigint  NOT NULL DEFAULT 0, -- until when a feed has handed it out
    taken_by    bigint -- which feed
);
CREATE INDEX dead_by_queue ON {schema}.dead (queue, id);

-- For people with psql; bodies, header values and error texts are left out.
CREATE VIEW {schema}.dead_letters AS
SELECT d.id, q.name AS queue, m.id AS message_id, m.type, m.correlation_id, d.reason, d.failed, d.replayed,
       to_timestamp(d.died_at / 1000.0) AS at, d.bytes
FROM {schema}.dead AS d
JOIN {schema}.queues AS q ON q.id = d.queue
LEFT JOIN {schema}.messages AS m ON m.seq = d.seq;
