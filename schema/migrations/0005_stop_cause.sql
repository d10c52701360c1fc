-- Why a job has ended, as a value beside the sentence in `reason`: completed, stop_when, time_limit,
-- cancelled or failed; NULL while it has not ended.
ALTER TABLE job ADD COLUMN stop_cause TEXT;

-- Jobs from before say it in `reason` only.
UPDATE job
SET stop_cause = CASE
    WHEN state IN ('cancelled', 'failed') THEN state
    WHEN state <> 'succeeded' THEN NULL
    WHEN reason LIKE 'stopped early: % s of wall clock are over after%' THEN 'time_limit'
    WHEN reason LIKE 'stopped early:%' THEN 'stop_when'
    ELSE 'completed'
END;

PRAGMA user_version = 5;
