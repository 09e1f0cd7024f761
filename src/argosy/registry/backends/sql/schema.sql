-- The registry's own tables, beside the declared ones. Their names begin with an underscore, which no declared table's does.

CREATE TABLE _meta (
    name TEXT PRIMARY KEY,              -- schema_version, revision, and half_loaded while an import is under way
    value INTEGER NOT NULL
) WITHOUT ROWID;

-- The change feed: one event per row written or deleted. The oldest are deleted.
CREATE TABLE _events (
    revision INTEGER PRIMARY KEY,
    name TEXT NOT NULL,                 -- of the table
    key TEXT NOT NULL,                  -- a JSON list
    is_deleted INTEGER NOT NULL
);

CREATE TABLE _logs (
    log_id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    next INTEGER NOT NULL,              -- number of the next entry; the oldest has next - length
    length INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,
    dropped INTEGER NOT NULL
);

CREATE TABLE _log_entries (
    log_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    payload BLOB NOT NULL,
    PRIMARY KEY (log_id, number)
) WITHOUT ROWID;

CREATE TABLE _counters (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL,
    expires_at INTEGER                  -- NULL: never
) WITHOUT ROWID;

CREATE INDEX _counters_expires ON _counters (expires_at) WHERE expires_at IS NOT NULL;
