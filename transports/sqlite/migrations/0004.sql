-- Failures of a message that used up no retry, in one summary. Few messages have one.
CREATE TABLE bezoar_uncounted (
    seq        INTEGER PRIMARY KEY,
    generation INTEGER NOT NULL, -- how often the message had been replayed; a later generation ignores it
    count      INTEGER NOT NULL,
    suspected  INTEGER NOT NULL,
    first      INTEGER NOT NULL,
    last       INTEGER NOT NULL,
    waited_ms  INTEGER NOT NULL,
    code       TEXT    NOT NULL
) STRICT;
