"""Logs and counters in SQLite: bounded lists of payloads with exact sizes, and numbers that may expire.

The functions work inside the transaction that their caller has opened.
"""

from sqlite3 import Cursor

from argosy.base.errors import Invalid
from argosy.registry.backends.sqlite_sql import SQL
from argosy.registry.column_checks import check_payload
from argosy.registry.transaction import Append, CountUp, LogState

_FIND, _BEGIN, _MOVE, _DROP = SQL["log_find"], SQL["log_begin"], SQL["log_move"], SQL["log_drop"]
_ADD, _NEWEST, _OLDEST = SQL["entry_add"], SQL["entry_newest"], SQL["entry_oldest"]
_SIZES, _FORGET = SQL["entry_sizes"], SQL["entry_drop"]
_COUNTER, _SET_COUNTER, _DROP_COUNTER = SQL["counter_read"], SQL["counter_write"], SQL["counter_drop"]

_Head = tuple[int, int, int, int, int]  # log_id, next, length, size_bytes, dropped


def read(cursor: Cursor, log: str, limit: int) -> LogState:
    if limit < 0:
        raise Invalid(f"a log is read for 0 entries or more, not {limit}")
    head = _head(cursor, log)
    if head is None:
        return LogState((), 0, 0, 0)
    log_id, _, length, size, dropped = head
    entries = tuple(payload for (payload,) in cursor.execute(_NEWEST, (log_id, limit)))
    return LogState(entries, length, size, dropped)


def append(cursor: Cursor, write: Append) -> None:
    check_payload(write.payload)
    head = _head(cursor, write.log)
    if head is None:
        begin(cursor, write.log)
        head = _head(cursor, write.log)
        assert head is not None
    log_id, number, length, size, dropped = head
    cursor.execute(_ADD, (log_id, number, write.payload))
    length, size = length + 1, size + len(write.payload)
    gone, gone_bytes = _too_many(cursor, log_id, length, size, write)
    if gone:
        cursor.execute(_FORGET, (log_id, number + 1 - length + gone))
    cursor.execute(_MOVE, (number + 1, length - gone, size - gone_bytes, dropped + gone, log_id))


def begin(cursor: Cursor, log: str, *, dropped: int = 0) -> None:
    cursor.execute(_BEGIN, (log, dropped))


def take_oldest(cursor: Cursor, log: str, count: int) -> tuple[bytes, ...]:
    if count < 0:
        raise Invalid(f"0 entries or more can be taken from a log, not {count}")
    head = _head(cursor, log)
    if head is None:
        return ()
    log_id, number, length, size, dropped = head
    taken = tuple(payload for (payload,) in cursor.execute(_OLDEST, (log_id, count)))
    cursor.execute(_FORGET, (log_id, number - length + len(taken)))
    cursor.execute(_MOVE, (number, length - len(taken), size - sum(map(len, taken)), dropped, log_id))
    return taken


def drop(cursor: Cursor, log: str) -> None:
    head = _head(cursor, log)
    if head is not None:
        cursor.execute(_FORGET, head[:2])
        cursor.execute(_DROP, head[:1])


def _head(cursor: Cursor, log: str) -> _Head | None:
    head: _Head | None = cursor.execute(_FIND, (log,)).fetchone()
    return head


def _too_many(cursor: Cursor, log_id: int, length: int, size: int, write: Append) -> tuple[int, int]:
    """How many of the oldest entries have to go, and their bytes; an entry too large for the log goes itself."""
    keep = length if write.keep is None else max(write.keep, 0)
    keep_bytes = size if write.keep_bytes is None else max(write.keep_bytes, 0)
    if length <= keep and size <= keep_bytes:
        return 0, 0
    gone = gone_bytes = 0
    for (entry_bytes,) in cursor.execute(_SIZES, (log_id,)):
        if length - gone <= keep and size - gone_bytes <= keep_bytes:
            break
        gone, gone_bytes = gone + 1, gone_bytes + entry_bytes
    return gone, gone_bytes


# -- counters -------------------------------------------------------------------------------------------------


def read_counter(cursor: Cursor, counter: str, now: int) -> tuple[int, int]:
    """A counter's value and the milliseconds it has left (0: for ever, or no counter)."""
    found = cursor.execute(_COUNTER, (counter, now)).fetchone()
    if found is None:
        return 0, 0
    value, expires_at = found
    return value, 0 if expires_at is None else expires_at - now


def count_up(cursor: Cursor, write: CountUp, now: int) -> tuple[int, int]:
    if write.ttl_ms is not None and write.ttl_ms <= 0:
        raise Invalid(f"a counter lives for 1 millisecond or more, not {write.ttl_ms}")
    value, expires_at = cursor.execute(_COUNTER, (write.counter, now)).fetchone() or (0, None)
    if value == 0 and write.ttl_ms is not None:
        expires_at = now + write.ttl_ms
    set_counter(cursor, write.counter, value + 1, expires_at)
    return value + 1, 0 if expires_at is None else expires_at - now


def set_counter(cursor: Cursor, counter: str, value: int, expires_at: int | None) -> None:
    cursor.execute(_SET_COUNTER, (counter, value, expires_at))


def drop_counter(cursor: Cursor, counter: str) -> None:
    cursor.execute(_DROP_COUNTER, (counter,))
