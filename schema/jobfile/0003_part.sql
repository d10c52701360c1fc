-- Values of any size: the state of a chain and the plan have their first 8 MiB where they have always
-- been (state.bytes, meta.value); what goes beyond follows here in parts of the same size, because a
-- value of the database may not have more than 16 MiB.
CREATE TABLE part (
    id    INTEGER PRIMARY KEY,
    value TEXT NOT NULL, -- 'plan', or 'state N' with the number of the chain
    part  INTEGER NOT NULL CHECK (part > 0),
    bytes BLOB NOT NULL,
    UNIQUE (value, part)
) STRICT;

PRAGMA user_version = 3;
