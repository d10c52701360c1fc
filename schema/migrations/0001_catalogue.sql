-- The catalogue, STATE/barkerd.db. Times are milliseconds since 1970 (UTC); 0 means "not yet".

PRAGMA application_id = 0x626b7264; -- "bkrd"

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value ANY NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE user (
    name       TEXT PRIMARY KEY,
    role       TEXT NOT NULL CHECK (role IN ('viewer', 'user', 'admin')),
    created_ms INTEGER NOT NULL,
    quotas     TEXT NOT NULL, -- JSON object
    usage      REAL NOT NULL DEFAULT 0, -- decayed seconds, as of usage_ms
    usage_ms   INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE token (
    id         TEXT PRIMARY KEY,
    user       TEXT NOT NULL REFERENCES user (name) ON DELETE CASCADE,
    hash       BLOB NOT NULL CHECK (length(hash) = 32), -- SHA-256 of the secret
    label      TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    revoked_ms INTEGER NOT NULL,
    used_ms    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX token_user ON token (user);

-- Short columns first: a scan that filters on them then never touches the long texts, which lie on
-- overflow pages. Ids grow with time, so the order of ids is the order of submission.
CREATE TABLE job (
    id              TEXT PRIMARY KEY,
    owner           TEXT NOT NULL,
    state           TEXT NOT NULL,
    deleted_ms      INTEGER NOT NULL,
    lab             INTEGER NOT NULL CHECK (lab IN (0, 1)),
    model           TEXT NOT NULL,
    sampler         TEXT NOT NULL,
    priority        INTEGER NOT NULL,
    revision        INTEGER NOT NULL,
    created_ms      INTEGER NOT NULL,
    started_ms      INTEGER NOT NULL,
    ended_ms        INTEGER NOT NULL,
    cpu_seconds     REAL NOT NULL,
    stored_bytes    INTEGER NOT NULL,
    name            TEXT NOT NULL,
    tags            TEXT NOT NULL, -- JSON array of texts
    idempotency_key TEXT,
    body_hash       BLOB,
    isa             TEXT,
    "precision"     TEXT,
    data_sha256     TEXT NOT NULL,
    reason          TEXT NOT NULL,
    verdict         TEXT,
    note            TEXT NOT NULL,
    summary         TEXT,
    progress        TEXT,
    request         TEXT NOT NULL
) STRICT;

-- Lists of one owner in order, and that owner's totals without looking at the table.
CREATE INDEX job_owner ON job (owner, id, deleted_ms, state, stored_bytes);
CREATE INDEX job_state ON job (state, id);
CREATE INDEX job_trash ON job (id) WHERE deleted_ms <> 0;
CREATE UNIQUE INDEX job_idempotency ON job (owner, idempotency_key)
    WHERE idempotency_key IS NOT NULL;

CREATE TABLE log (
    job   TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
    seq   INTEGER NOT NULL, -- from 1, per job
    at_ms INTEGER NOT NULL,
    text  TEXT NOT NULL,
    PRIMARY KEY (job, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE reference (
    owner      TEXT NOT NULL,
    name       TEXT NOT NULL,
    lab        INTEGER NOT NULL CHECK (lab IN (0, 1)),
    created_ms INTEGER NOT NULL,
    document   TEXT NOT NULL,
    PRIMARY KEY (owner, name)
) STRICT;

CREATE INDEX reference_name ON reference (name);

-- The job whose file is being removed: written in the transaction that removes its row, so that a
-- crash in between leaves no file behind for good.
CREATE TABLE purge (
    job TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 1;
