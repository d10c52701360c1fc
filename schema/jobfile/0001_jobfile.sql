-- The file of one job, STATE/draws/<id>.db. All blobs are little-endian IEEE doubles, except
-- state.bytes, which only the program that wrote it can read.

PRAGMA application_id = 0x626b7266; -- "bkrf"

-- request, width, d, chains, thin, warmup, tile_draws, tile_columns
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value ANY NOT NULL
) STRICT, WITHOUT ROWID;

-- The saved columns, position from 0.
CREATE TABLE parameter (
    position INTEGER PRIMARY KEY,
    name     TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE metric_name (
    metric INTEGER PRIMARY KEY, -- from 0
    name   TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE chain (
    chain        INTEGER PRIMARY KEY, -- from 1
    iteration    INTEGER NOT NULL,
    status       INTEGER NOT NULL, -- 0 active, 1 done, 2 diverged
    cpu_seconds  REAL NOT NULL,
    draws        INTEGER NOT NULL, -- stored, warm-up included
    metrics      INTEGER NOT NULL, -- records stored
    packed       INTEGER NOT NULL, -- tiles that have their final form, counted block by block
    moment_count INTEGER NOT NULL,
    noise_count  INTEGER NOT NULL,
    note         TEXT
) STRICT;

CREATE TABLE state (
    chain INTEGER PRIMARY KEY,
    bytes BLOB NOT NULL
) STRICT;

-- One number per parameter of the model, saved or not.
CREATE TABLE vector (
    chain INTEGER NOT NULL,
    kind  TEXT NOT NULL, -- mean, variance, tau, beyond, sigma
    data  BLOB NOT NULL,
    UNIQUE (chain, kind)
) STRICT;

-- Draws first .. first + draws - 1 of the columns of one block (tile_columns neighbours), column
-- by column: number i of column k is data[k * draws + i].
CREATE TABLE tile (
    id    INTEGER PRIMARY KEY,
    chain INTEGER NOT NULL,
    block INTEGER NOT NULL, -- from 0
    first INTEGER NOT NULL, -- from 0
    draws INTEGER NOT NULL CHECK (draws > 0),
    data  BLOB NOT NULL,
    UNIQUE (chain, block, first)
) STRICT;

-- Held-out metrics: of the draw, and of the average since the end of warm-up. NULL is NaN.
CREATE TABLE metric (
    chain     INTEGER NOT NULL,
    record    INTEGER NOT NULL, -- from 0, per chain
    metric    INTEGER NOT NULL,
    iteration INTEGER NOT NULL,
    draw      REAL,
    average   REAL,
    PRIMARY KEY (chain, record, metric)
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 1;
