-- When a job went to the trash, by the clock that counts only the time in which the daemon runs
-- (meta: uptime_ms). A wall clock that is set forward does not empty the trash.
ALTER TABLE job ADD COLUMN deleted_uptime_ms INTEGER NOT NULL DEFAULT 0;

PRAGMA user_version = 8;
