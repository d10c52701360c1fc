-- Studies that submit their jobs by themselves, a few at a time.

-- state: fixed (all jobs came with it, and its state follows from theirs), running, paused, cancelling,
-- deleting, or how it ended: succeeded, failed, cancelled.
ALTER TABLE study ADD COLUMN state TEXT NOT NULL DEFAULT 'fixed';
ALTER TABLE study ADD COLUMN lab INTEGER; -- NULL: seen by who may see all of its jobs
ALTER TABLE study ADD COLUMN jobs INTEGER NOT NULL DEFAULT 0; -- in all
ALTER TABLE study ADD COLUMN submitted INTEGER NOT NULL DEFAULT 0; -- the positions below have a row in study_job
ALTER TABLE study ADD COLUMN ended INTEGER NOT NULL DEFAULT 0; -- members with an outcome ...
ALTER TABLE study ADD COLUMN failed INTEGER NOT NULL DEFAULT 0; -- ... and those of them without success
ALTER TABLE study ADD COLUMN cpu_seconds REAL NOT NULL DEFAULT 0; -- of members with an outcome
ALTER TABLE study ADD COLUMN ended_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE study ADD COLUMN data_sha256 TEXT; -- of the first job: the data of all, unless the grid has several
ALTER TABLE study ADD COLUMN memo TEXT; -- JSON: what its kind has decided so far

CREATE INDEX study_active ON study (id)
    WHERE state IN ('running', 'paused', 'cancelling', 'deleting');

-- What is kept of a job when it ends (JSON), so that the table outlives its draws; NULL: not ended, or of
-- a fixed study. goal: iterations after warm-up that its study wants of it; 0: those of its request.
ALTER TABLE study_job ADD COLUMN outcome TEXT;
ALTER TABLE study_job ADD COLUMN goal INTEGER NOT NULL DEFAULT 0;

CREATE INDEX study_job_open ON study_job (study, position) WHERE outcome IS NULL;

-- The study that a job belongs to: it is in no list but that study's, and is deleted with it.
ALTER TABLE job ADD COLUMN study TEXT;

-- Lists are as fast as without the jobs of studies.
CREATE INDEX job_listed ON job (id) WHERE study IS NULL;
CREATE INDEX job_listed_owner ON job (owner, id) WHERE study IS NULL;
CREATE INDEX job_listed_state ON job (state, id) WHERE study IS NULL;

PRAGMA user_version = 9;
