-- The bytes of an owner's references, summed without reading the documents.
CREATE INDEX reference_size ON reference (owner, name, length(CAST(document AS BLOB)));

PRAGMA user_version = 7;
