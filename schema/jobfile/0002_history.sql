-- What was looked at while the job ran, and the checks made at its end. Files of version 1 have
-- neither.

-- One row per look at the draws. Positions grow by one with every look; only multiples of a power
-- of two are kept, besides the latest, so that there are never more than 512 rows.
CREATE TABLE history (
    position     INTEGER PRIMARY KEY,
    draws        INTEGER NOT NULL, -- after warm-up, of every chain
    iteration    INTEGER NOT NULL, -- of all chains together, warm-up included
    seconds      REAL NOT NULL,    -- since the job was started
    max_rhat     REAL,             -- NULL: not known; as the next two
    min_ess_bulk REAL,
    min_ess_tail REAL,
    worst        TEXT NOT NULL,    -- the parameter with the largest R-hat, or ''
    stride       INTEGER NOT NULL, -- number k of the blobs is column k * stride
    rhat         BLOB NOT NULL,    -- doubles, NaN: not known; of up to 100 columns
    ess_bulk     BLOB NOT NULL
) STRICT;

-- The checks, one JSON document, and the iterations of all chains together that they rest on.
CREATE TABLE checks (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    iteration INTEGER NOT NULL,
    document  TEXT NOT NULL
) STRICT;

-- meta has two more keys from here on: blocks, a JSON array [{"name": "U", "shape": [943, 20]}, ...]
-- that names all parameters of the model in their order, saved or not; rows, the data terms.

PRAGMA user_version = 2;
