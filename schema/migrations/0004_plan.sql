-- Plans: what the daemon chose before the first iteration of a job.

-- A JSON document, {"state": "pending"} or {"state": "ready", ...}; NULL: the job needs no plan. The
-- plan itself is in the job file, written before this.
ALTER TABLE job ADD COLUMN plan TEXT;

-- Requests from before say nothing of the gradient and the preconditioner, which then were as here.
UPDATE job
SET request = json_set(request, '$.precondition', 'none', '$.gradient',
                       json('{"estimator":"plain","centre":"mode"}'))
WHERE json_valid(request) AND json_type(request) = 'object';

PRAGMA user_version = 4;
