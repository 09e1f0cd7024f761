"""The shared store within one process: for throttles of one process, for tests and for simulations.

It has the same rows and the same arithmetic as the scripts in Redis, expires rows at the same time, and detects batches
that it has applied already.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from argosy.base.clock import Clock
from argosy.base.errors import Conflict
from argosy.throttle.ports import (
    BucketState,
    RowId,
    RowPull,
    RowPush,
    RowRestore,
    RowState,
    RowVersion,
    RowWrite,
    SyncBatch,
    SyncReply,
)
from argosy.throttle.rows import RowRules, apply_delta, apply_restore, is_moved


@dataclass
class _Row:
    mark: RowVersion
    expires_ms: int
    fingerprint: str
    states: dict[int, BucketState] = field(default_factory=dict)
    versions: dict[int, int] = field(default_factory=dict)  # of the row, when the column was last written
    writers: dict[str, int] = field(default_factory=dict)


class MemoryRowServer:
    """The state of the server; every instance takes a client."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Instances call from their background threads; one exchange is one atomic step, like a batch of scripts.
        self._lock = threading.Lock()
        self._rows: dict[tuple[str, RowId], _Row] = {}

    def client(self, rules: RowRules, *, instance: str, namespace: str = "") -> "MemoryRowStore":
        return MemoryRowStore(self, rules, instance, namespace)

    def forget(self) -> None:
        """Loses all rows, as a server without a disk does when it restarts."""
        with self._lock:
            self._rows.clear()

    def states(self, cell: RowId, namespace: str = "") -> Mapping[int, BucketState]:
        """The content of a row, for tests and checkers."""
        with self._lock:
            row = self._live(namespace, cell)
            return {} if row is None else dict(row.states)

    def exchange(self, client: "MemoryRowStore", batch: SyncBatch) -> SyncReply:
        with self._lock:
            # Restores, then pushes, then pulls, as the port requires: the pulls see all writes of the batch.
            restored = tuple(self._restore(client, restore) for restore in batch.restores)
            pushed = tuple(self._push(client, push) for push in batch.pushes)
            pulled = tuple(self._pull(client, pull, [*restored, *pushed]) for pull in batch.pulls)
        wall_ms = self._clock.wall() * 1000
        return SyncReply(restored, pushed, pulled, server_ms=wall_ms, at_ms=wall_ms)

    def _now_ms(self) -> int:
        return int(self._clock.wall() * 1000)

    def _live(self, namespace: str, cell: RowId) -> _Row | None:
        row = self._rows.get((namespace, cell))
        # Expiry counts from the first write and is not extended, as PEXPIRE in the script.
        if row is not None and row.expires_ms <= self._now_ms():
            del self._rows[namespace, cell]
            return None
        return row

    def _row(self, client: "MemoryRowStore", cell: RowId) -> _Row:
        """The row to write to, created if it is missing."""
        row = self._live(client.namespace, cell)
        if row is None:
            now_ms = self._now_ms()
            row = _Row(
                RowVersion(round(self._clock.wall() * 1e6)), now_ms + client.rules.ttl_ms, client.rules.fingerprint
            )
            self._rows[client.namespace, cell] = row
        # Another configuration has other buckets under the same numbers; adding to them would blame arbitrary clients.
        if row.fingerprint != client.rules.fingerprint:
            raise Conflict(conflict(cell, client.namespace))
        return row

    def _write(self, row: _Row, states: dict[int, BucketState]) -> None:
        row.mark = RowVersion(row.mark.born_us, row.mark.version + 1)
        row.states |= states
        row.versions |= dict.fromkeys(states, row.mark.version)

    def _push(self, client: "MemoryRowStore", push: RowPush) -> RowWrite:
        row = self._row(client, push.cell)
        # As in the script: a batch whose reply was lost is sent again with the same numbers.
        is_duplicate = push.number <= row.writers.get(client.instance, 0)
        if not is_duplicate:
            now_ms, per_ms = self._now_ms(), client.rules.decay_per_ms
            self._write(
                row,
                {
                    col: apply_delta(row.states.get(col), delta, at_ms, now_ms=now_ms, per_ms=per_ms)
                    for col, delta, at_ms in push.deltas
                },
            )
            row.writers[client.instance] = push.number
        states = {col: row.states.get(col, BucketState(0.0, 0)) for col, _, _ in push.deltas}
        return RowWrite(push.cell, row.mark, is_duplicate, states)

    def _restore(self, client: "MemoryRowStore", restore: RowRestore) -> RowWrite:
        row = self._row(client, restore.cell)
        now_ms, per_ms = self._now_ms(), client.rules.decay_per_ms
        self._write(
            row,
            {
                col: apply_restore(row.states.get(col), prob, at_ms, now_ms=now_ms, per_ms=per_ms)
                for col, prob, at_ms in restore.states
            },
        )
        return RowWrite(restore.cell, row.mark, False, {col: row.states[col] for col, _, _ in restore.states})

    def _pull(self, client: "MemoryRowStore", pull: RowPull, written: list[RowWrite]) -> RowState:
        row = self._live(client.namespace, pull.cell)
        if row is None:
            return RowState(pull.cell, RowVersion())
        if not is_moved(pull, row.mark, written):
            return RowState(pull.cell, row.mark)
        # A row that was created again counts its versions from 1, so everything in it is new to the caller.
        since = pull.seen.version if pull.seen.born_us == row.mark.born_us else 0
        states = {col: row.states[col] for col, version in row.versions.items() if version > since}
        return RowState(pull.cell, row.mark, states, dict(row.writers))


class MemoryRowStore:
    """One instance's client of a `MemoryStore`."""

    def __init__(self, store: MemoryRowServer, rules: RowRules, instance: str, namespace: str) -> None:
        self._store = store
        self.rules = rules
        self.instance = instance
        self.namespace = namespace

    def exchange(self, batch: SyncBatch) -> SyncReply:
        return self._store.exchange(self, batch)

    def close(self) -> None:
        return None


def conflict(cell: RowId, namespace: str) -> str:
    """The message when throttles of different configurations use the same keys."""
    return (
        f"row {cell.row} of window {cell.seed} in namespace {namespace!r} belongs to a throttle of another "
        "configuration: use another namespace, or the same configuration and secret"
    )
