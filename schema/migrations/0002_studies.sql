-- Studies: several jobs as one question.

-- A row is written in one transaction with its members and with the jobs that it brings along, and
-- never changes. Who may see all of its jobs may see it.
CREATE TABLE study (
    id              TEXT PRIMARY KEY,
    owner           TEXT NOT NULL,
    kind            TEXT NOT NULL,
    created_ms      INTEGER NOT NULL,
    name            TEXT NOT NULL,
    idempotency_key TEXT,
    body_hash       BLOB,
    request         TEXT NOT NULL -- JSON object, every default resolved
) STRICT;

CREATE INDEX study_owner ON study (owner, id);
CREATE UNIQUE INDEX study_idempotency ON study (owner, idempotency_key)
    WHERE idempotency_key IS NOT NULL;

-- `job` refers to no row: a job may be removed and its study stays, with a gap.
CREATE TABLE study_job (
    study    TEXT NOT NULL REFERENCES study (id) ON DELETE CASCADE,
    position INTEGER NOT NULL, -- from 0
    job      TEXT NOT NULL,
    setting  TEXT NOT NULL, -- JSON object: what sets this job apart from the others
    PRIMARY KEY (study, position)
) STRICT, WITHOUT ROWID;

CREATE INDEX study_job_job ON study_job (job, study);

PRAGMA user_version = 2;
