-- The bytes of an owner's jobs outside of the trash, written with every change of them: the quota asks
-- at every submission, and adding up thousands of jobs each time took a quarter of what a submission may.
CREATE TABLE owner_bytes (
    owner TEXT PRIMARY KEY,
    bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO owner_bytes
    SELECT owner, sum(stored_bytes) FROM job WHERE deleted_ms = 0 GROUP BY owner;

PRAGMA user_version = 10;
