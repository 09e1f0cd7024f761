"""Delivery of changes to sinks: sequence numbers of events, the cursor of each sink, and events that overflow memory.

A cursor only moves forward, and only from the position that the caller expects: of two gateways that deliver to one
sink, one gets a Conflict. The overflow of a sink is bounded in bytes; the oldest events are dropped first, and counted.
"""

from dataclasses import dataclass

from argosy.base.errors import Conflict, Invalid
from argosy.registry.crud import check_key, check_limit, put_row
from argosy.registry.rows import CdcCursor
from argosy.registry.tables import CDC_CURSORS, CDC_OVERFLOW_LOG, CDC_SEQUENCE, log_name
from argosy.registry.transaction import (
    Append,
    CountUp,
    Delete,
    DropLog,
    Get,
    LogState,
    Now,
    ReadCounter,
    ReadLog,
    TakeOldest,
    TransactionBody,
    commit,
    find,
    get,
    read_many,
    transaction,
)

# Of one sink, as in the design. A log and not a value: a Redis string cannot exceed 512 MiB.
OVERFLOW_BYTES = 1 << 30
EVENT_BYTES_MAX = 1 << 20  # of one event
POP_MAX = 1000  # events removed at once


@dataclass(frozen=True)
class OverflowStats:
    events: int
    size_bytes: int
    dropped: int  # events dropped since the log was created


@transaction
def next_seq(index_uid: str) -> TransactionBody[int]:
    """The sequence number of an index's next event. It only grows, and is never returned twice."""
    # A counter rather than a row: concurrent writers would race for the row, and a counter never causes a retry.
    done = yield from commit(CountUp(log_name(CDC_SEQUENCE, index_uid)))
    return done.counts[0][0]


@transaction
def last_seq(index_uid: str) -> TransactionBody[int]:
    """The latest sequence number; 0 before the first."""
    (counter,) = yield from read_many(ReadCounter(log_name(CDC_SEQUENCE, index_uid)))
    value: int = counter[0]
    return value


@transaction
def advance(sink_name: str, index_uid: str, *, expected_seq: int, new_seq: int) -> TransactionBody[CdcCursor]:
    """Moves a cursor forward. Raises `Conflict` unless it is at `expected_seq` (0: it does not exist)."""
    check_key(CDC_CURSORS, (sink_name, index_uid))
    if not 0 <= expected_seq < new_seq:
        raise Invalid(f"a cursor moves forward, not from {expected_seq} to {new_seq}")
    clock, cursor = yield from read_many(Now(), Get(CDC_CURSORS, (sink_name, index_uid)))
    # Compared with the caller's position and not only with the version: the position is what the caller has delivered.
    current = 0 if cursor is None else cursor.last_event_seq
    if current != expected_seq:
        raise Conflict(f"the cursor of {sink_name!r} in {index_uid!r} is at {current}, not {expected_seq}")
    version = 0 if cursor is None else cursor.version
    return (yield from put_row(CDC_CURSORS, CdcCursor(sink_name, index_uid, new_seq, clock, version)))


@transaction
def cursor(sink_name: str, index_uid: str) -> TransactionBody[CdcCursor | None]:
    check_key(CDC_CURSORS, (sink_name, index_uid))
    return (yield from get(CDC_CURSORS, sink_name, index_uid))


@transaction
def cursors(sink_name: str) -> TransactionBody[list[CdcCursor]]:
    """All cursors of a sink, in one read."""
    check_key(CDC_CURSORS, (sink_name,))
    return (yield from find(CDC_CURSORS, "family", sink_name))


@transaction
def remove_sink(sink_name: str) -> TransactionBody[int]:
    """Deletes a batch of a sink's cursors, and its overflow; call it until it returns 0."""
    check_key(CDC_CURSORS, (sink_name,))
    rows = yield from find(CDC_CURSORS, "family", sink_name)
    yield from commit(DropLog(log_name(CDC_OVERFLOW_LOG, sink_name)), *(Delete(CDC_CURSORS, row) for row in rows))
    return len(rows)


@transaction
def push(sink_name: str, event: bytes, max_bytes: int = OVERFLOW_BYTES) -> TransactionBody[None]:
    """Stores an event for later; drops the oldest ones if the overflow exceeds `max_bytes`."""
    if not 1 <= len(event) <= min(EVENT_BYTES_MAX, max_bytes):
        raise Invalid(f"an event takes 1 to {min(EVENT_BYTES_MAX, max_bytes)} bytes, not {len(event)}")
    yield from commit(Append(log_name(CDC_OVERFLOW_LOG, sink_name), event, keep_bytes=max_bytes))


@transaction
def pop(sink_name: str, count: int = 1) -> TransactionBody[tuple[bytes, ...]]:
    """Removes and returns the oldest events."""
    done = yield from commit(TakeOldest(log_name(CDC_OVERFLOW_LOG, sink_name), check_limit(count, POP_MAX)))
    return done.taken[0]


@transaction
def overflow(sink_name: str) -> TransactionBody[OverflowStats]:
    """How many events wait, and how many were dropped."""
    (log,) = yield from read_many(ReadLog(log_name(CDC_OVERFLOW_LOG, sink_name), 0))
    state: LogState = log
    return OverflowStats(state.length, state.size_bytes, state.dropped)
