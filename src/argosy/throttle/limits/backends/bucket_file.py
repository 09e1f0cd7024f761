"""The SQLite file in which an embedded limiter keeps its buckets: one row per bucket, written as `codec` writes it.

One process holds it, locked for as long as it is open. A file of another program or of another version is refused.
"""

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from argosy.base.errors import Conflict, Invalid, Unavailable
from argosy.throttle.limits.buckets import Bucket, LeakyBucket, TokenBucket
from argosy.throttle.limits.model import Status

LOCK_WAIT_S = 5.0  # as long as a predecessor may take to end
FILE_VERSION = 1

_OURS = 0x41726C6D  # "Arlm": SQLite's application_id, which tells our files from other programs'


class BucketFile:
    """The SQLite file. Its methods block and must not overlap; one thread calls them all."""

    def __init__(self, path: Path, *, lock_wait_s: float = LOCK_WAIT_S) -> None:
        self.path = path
        try:
            self._connection = sqlite3.connect(path, timeout=lock_wait_s, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise Unavailable(f"cannot open {path}: {error}: does its folder exist, and may we write there?") from error
        try:
            self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def rows(self) -> list[tuple[str, Bucket]]:
        """Every bucket, the one longest unchanged first."""
        try:
            found = self._connection.execute("SELECT key, line FROM bucket ORDER BY rowid").fetchall()
        except sqlite3.DatabaseError as error:
            raise _damaged(self.path, error) from error
        return [(key, decode_bucket(line)) for key, line in found]

    def save(self, changes: Mapping[str, Bucket | None]) -> None:
        """All of them or none."""
        gone = [(key,) for key, bucket in changes.items() if bucket is None]
        kept = [(key, encode_bucket(bucket)) for key, bucket in changes.items() if bucket is not None]
        try:
            self._connection.execute("BEGIN")
            self._connection.executemany("DELETE FROM bucket WHERE key = ?", gone)
            # Replacing gives the row a new number, so the numbers tell which bucket has been unchanged for longest.
            self._connection.executemany("REPLACE INTO bucket (key, line) VALUES (?, ?)", kept)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise Unavailable(f"cannot write to {self.path}: {error}: is the disk full?") from error

    def close(self) -> None:
        self._connection.close()

    def _prepare(self) -> None:
        """Takes the lock for good, and makes or checks the table."""
        run = self._connection.execute
        try:
            run("PRAGMA locking_mode = EXCLUSIVE")
            run("PRAGMA journal_mode = WAL")
            run("PRAGMA synchronous = NORMAL")
            run("BEGIN IMMEDIATE")
            (owner,), (version,) = run("PRAGMA application_id").fetchone(), run("PRAGMA user_version").fetchone()
            if not run("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                run("CREATE TABLE bucket (key TEXT NOT NULL UNIQUE, line TEXT NOT NULL)")
                run(f"PRAGMA application_id = {_OURS}")
                run(f"PRAGMA user_version = {FILE_VERSION}")
            elif owner != _OURS:
                raise Invalid(f"{self.path} is another program's database: name another file for the limits")
            elif version != FILE_VERSION:
                raise Invalid(f"{self.path} has version {version}, not {FILE_VERSION}: use the argosy that wrote it")
            run("COMMIT")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise Unavailable(f"cannot use {self.path}: {error}") from error
            advice = "give each process a file of its own, or use redis:// for all of them"
            raise Conflict(f"{self.path} is held by another process: {advice}") from error
        except sqlite3.DatabaseError as error:
            raise _damaged(self.path, error) from error


def _damaged(path: Path, error: sqlite3.Error) -> Invalid:
    return Invalid(f"{path} is no SQLite file or is damaged ({error}): move it away to start anew")


def encode_bucket(bucket: Bucket) -> str:
    """The line for a bucket."""
    if isinstance(bucket, TokenBucket):
        return "T {:d} {:d} {:d} {:d} {:d} {:d}".format(*bucket)
    return f"L {bucket.burst} {bucket.remaining!r} {bucket.updated_at} {bucket.expire_at}"


def decode_bucket(line: str) -> Bucket:
    """The bucket of a line."""
    kind, *parts = line.split(" ")
    try:
        if kind == "T" and len(parts) == 6:
            limit, duration, remaining, created_at, expire_at, status = map(int, parts)
            return TokenBucket(limit, duration, remaining, created_at, expire_at, Status(status))
        if kind == "L" and len(parts) == 4:
            return LeakyBucket(int(parts[0]), float(parts[1]), int(parts[2]), int(parts[3]))
    except ValueError:
        pass
    raise Invalid(f"{line[:100]!r} is no bucket: it was written by another program, or the storage is damaged")
