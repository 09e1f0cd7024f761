"""Changes that the store does not have yet: one entry per bucket, however many changes there were.

Changes of one bucket are summed, so the size is bounded by the number of buckets and not by the traffic. The explicit
bound is for callers of the service that pass arbitrary buckets.
"""

from collections.abc import Iterator, Mapping, Sequence

from argosy.throttle.blue import decay
from argosy.throttle.ports import QueueFull, RowId, RowPush, Update

PUSHED_BUCKETS_MAX = 200  # of one row in one call: about 1 ms on the server, which blocks all other clients

_NOTHING: Mapping[int, tuple[float, int]] = {}


class DeltaBuffer:
    """Sums of changes by row and column."""

    def __init__(self, per_ms: float, entries_max: int) -> None:
        self._per_ms = per_ms
        self._entries_max = entries_max
        self._rows: dict[RowId, dict[int, tuple[float, int]]] = {}
        self._entries = 0

    def __len__(self) -> int:
        return self._entries

    def add(self, updates: Sequence[Update]) -> None:
        """Adds changes; QueueFull, and adds none, if there are too many buckets."""
        fresh = {
            (update.seed, delta.row_id, delta.col_id)
            for update in updates
            for delta in update.deltas
            if delta.col_id not in self._rows.get(RowId(update.seed, delta.row_id), ())
        }
        if self._entries + len(fresh) > self._entries_max:
            raise QueueFull(
                f"{self._entries} buckets wait to be pushed and {len(fresh)} more do not fit into {self._entries_max}: "
                "the store is too slow or unreachable"
            )
        for update in updates:
            for row, col, delta, at_ms in update.deltas:
                self._add(RowId(update.seed, row), col, delta, at_ms)

    def _add(self, cell: RowId, col: int, delta: float, at_ms: int) -> None:
        entries = self._rows.setdefault(cell, {})
        if col in entries:
            known, known_ms = entries[col]
            latest = max(known_ms, at_ms)
            summed = decay(known, known_ms, latest, self._per_ms) + decay(delta, at_ms, latest, self._per_ms)
            entries[col] = summed, latest
        else:
            entries[col] = delta, at_ms
            self._entries += 1

    def row(self, cell: RowId) -> Mapping[int, tuple[float, int]]:
        """The buffered changes of a row: sum and time by column."""
        return self._rows.get(cell, _NOTHING)

    def pushes(self, after: int) -> Iterator[RowPush]:
        """All changes, split into calls of bounded size and numbered from `after` + 1."""
        for cell, entries in self._rows.items():
            deltas = [(col, delta, at_ms) for col, (delta, at_ms) in entries.items()]
            for start in range(0, len(deltas), PUSHED_BUCKETS_MAX):
                after += 1
                yield RowPush(cell, after, tuple(deltas[start : start + PUSHED_BUCKETS_MAX]))

    def clear(self) -> int:
        """Drops all entries and returns their number."""
        dropped, self._entries = self._entries, 0
        self._rows = {}
        return dropped
