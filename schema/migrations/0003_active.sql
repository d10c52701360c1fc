-- How many unfinished jobs an owner has is asked at every submission: without looking at the
-- thousands that have ended.
CREATE INDEX job_active ON job (owner)
    WHERE deleted_ms = 0 AND state IN ('queued', 'running', 'paused', 'cancelling');

PRAGMA user_version = 3;
