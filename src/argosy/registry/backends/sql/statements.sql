-- All statements that are not generated from a table's declaration. `-- name: x` begins one; sqlite_setup.py reads them.

-- name: meta_read
SELECT value FROM _meta WHERE name = ?;
-- name: meta_write
INSERT INTO _meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value;
-- name: meta_drop
DELETE FROM _meta WHERE name = ?;

-- name: event_add
INSERT INTO _events (revision, name, key, is_deleted) VALUES (?, ?, ?, ?);
-- name: event_trim
DELETE FROM _events WHERE revision <= ?;
-- name: event_oldest
SELECT min(revision) FROM _events;
-- name: event_after
SELECT revision, name, key, is_deleted FROM _events WHERE revision > ? ORDER BY revision LIMIT ?;

-- name: log_find
SELECT log_id, next, length, size_bytes, dropped FROM _logs WHERE name = ?;
-- name: log_begin
INSERT INTO _logs (name, next, length, size_bytes, dropped) VALUES (?, 1, 0, 0, ?);
-- name: log_move
UPDATE _logs SET next = ?, length = ?, size_bytes = ?, dropped = ? WHERE log_id = ?;
-- name: log_drop
DELETE FROM _logs WHERE log_id = ?;
-- name: log_all
SELECT log_id, name, dropped, length FROM _logs ORDER BY name;
-- name: entry_add
INSERT INTO _log_entries (log_id, number, payload) VALUES (?, ?, ?);
-- name: entry_newest
SELECT payload FROM _log_entries WHERE log_id = ? ORDER BY number DESC LIMIT ?;
-- name: entry_oldest
SELECT payload FROM _log_entries WHERE log_id = ? ORDER BY number LIMIT ?;
-- name: entry_sizes
SELECT length(payload) FROM _log_entries WHERE log_id = ? ORDER BY number;
-- name: entry_drop
DELETE FROM _log_entries WHERE log_id = ? AND number < ?;
-- name: entry_all
SELECT payload FROM _log_entries WHERE log_id = ? ORDER BY number;

-- name: counter_read
SELECT value, expires_at FROM _counters WHERE name = ? AND (expires_at IS NULL OR expires_at > ?);
-- name: counter_write
INSERT INTO _counters (name, value, expires_at) VALUES (?, ?, ?)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at;
-- name: counter_drop
DELETE FROM _counters WHERE name = ?;
-- name: counter_prune
DELETE FROM _counters WHERE name IN (SELECT name FROM _counters WHERE expires_at <= ? LIMIT ?);
-- name: counter_all
SELECT name, value, expires_at FROM _counters WHERE expires_at IS NULL OR expires_at > ? ORDER BY name;
