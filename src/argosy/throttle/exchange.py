"""The exchange with the shared store, as a state machine: changes go out in batches, state comes in, nothing waits.

One batch is in flight at a time, and within a batch pushes precede pulls. So a fetched row contains every change sent
before it, and what it cannot contain is exactly what is still buffered here. That difference is reported with the row,
which excludes the race between update and request that the document describes.

When the store fails, the same batch is sent again with back-off and jitter (the store knows its number, so it is
applied once), and is then dropped: replaying the changes of a long outage would punish clients for failures that time
has already forgiven. From then on the store counts as unreachable: nothing is buffered for it, and from time to time a
batch without changes probes it.

When the store has lost rows (a restart, a failover to a replica that lagged), it returns less than it had, and after an
outage less than the instances have learnt meanwhile. Such a row is not passed on; the instances restore it first.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from argosy.base.clock import Random
from argosy.base.retry import Backoff
from argosy.throttle.blue import decay
from argosy.throttle.model import Config
from argosy.throttle.ports import (
    BucketState,
    OverwriteBucket,
    QueueFull,
    RespBucket,
    RowId,
    RowPull,
    RowPush,
    RowRestore,
    RowVersion,
    RowWrite,
    SyncBatch,
    SyncReply,
    Update,
)
from argosy.throttle.settings import ThrottleSettings

# Ten percent is enough: without it instances started by one deployment would flush in the same millisecond for ever.
JITTER = 0.1  # of every wait, so that instances that start together do not stay in step
# Four attempts take less than a second; a store that fails for longer counts as unreachable.
RETRY_FIRST_S, RETRY_CEILING_S = 0.05, 0.4
# One small batch per probe, so that a store that recovers is not met by the queues of all instances at once.
PROBE = Backoff(first_s=1.0, ceiling_s=5.0)
# A bound, because a caller of the storage service may request any seed.
SEEDS_MAX = 4  # windows whose rows are tracked; two are in use, the others have just ended
OFFSET_STEP_MS = 50  # a smaller offset is not corrected: it would only make the clock jump
# Peers count only for the gain while the store is unreachable, so an instance without failures need not be counted.
LIVE_S = 60.0  # an instance that pushes nothing for this long has no failures
PEERS_MAX = 10_000  # tracked; an instance that restarts has a new name


@dataclass(frozen=True)
class ExchangeReplied:
    """The store has executed the batch."""

    reply: SyncReply


@dataclass(frozen=True)
class ExchangeFailed:
    """The store has not executed the batch, or not all of it, or its reply was lost."""


@dataclass
class SyncCounters:
    """Events since the start."""

    errors: int = 0
    dropped: int = 0  # changes, each of one bucket
    duplicates: int = 0
    losses: int = 0  # rows


@dataclass(frozen=True)
class SyncStatus:
    """The state of the synchronization."""

    is_unreachable: bool
    has_pulled: bool  # at least one row was read
    peers: int  # instances that have pushed lately, including this one
    offset_ms: int  # to add to this machine's clock
    queue: int  # buckets with changes that the store does not have


class StoreExchange:
    """A `StateMachine` whose effects are `SyncBatch`es, and the core of the document's storage service."""

    def __init__(self, config: Config, settings: ThrottleSettings, random: Random, *, instance: str) -> None:
        self._levels = config.levels
        self._per_ms = config.decay_per_ms
        self._settings = settings
        self._random = random
        self._retry = Backoff(first_s=RETRY_FIRST_S, ceiling_s=RETRY_CEILING_S, attempts_max=settings.attempts_max)
        # Two buffers that are swapped: changes made while a batch is in flight must be distinguishable from those in
        # it.
        self._waiting = DeltaBuffer(self._per_ms, settings.queue_max)
        self._flying = DeltaBuffer(self._per_ms, settings.queue_max)
        self._number = 0
        self._batch: SyncBatch | None = None  # until it has succeeded or is given up
        self._is_sent = False  # and not answered yet
        self._attempts = 0
        self._failures = 0  # batches given up in a row; the store is unreachable while this is not 0
        self._next_at = 0.0
        self._requested: set[int] = set()
        self._seen: dict[RowId, RowVersion] = {}  # the latest version, by which a loss is detected
        self._read: dict[RowId, RowVersion] = {}  # the version up to which all columns are read
        self._lost: set[RowId] = set()
        self._restores: list[RowRestore] = []
        self._withheld: set[RowId] = set()  # lost and not restored yet
        self._has_gap = False  # changes were dropped and no row has been read since
        self._arrived: dict[RowId, dict[int, BucketState]] = {}
        self._peers = Peers(instance)
        self._offset_ms = 0
        self._has_heard = False
        self.counters = SyncCounters()

    # -- the storage service ----------------------------------------------------------------------------------------

    def update(self, updates: Sequence[Update]) -> None:
        """Buffers changes; while the store is unreachable they are dropped at once."""
        # Buffering through an outage would replay failures that time has already forgiven.
        if self._failures:
            self.counters.dropped += sum(len(update.deltas) for update in updates)
        else:
            self._waiting.add(updates)

    def request(self, seed: int) -> None:
        """Requests a window with the next batch."""
        self._requested.add(seed)
        # The oldest window is dropped: it is the one that ends first.
        if len(self._requested) > SEEDS_MAX:
            self._requested.discard(min(self._requested))

    def take(self) -> list[RespBucket]:
        """The rows that have arrived since the last call."""
        arrived, self._arrived = self._arrived, {}
        return [RespBucket(cell.seed, list(self._pending_buckets(cell, states))) for cell, states in arrived.items()]

    def _pending_buckets(self, cell: RowId, states: dict[int, BucketState]) -> Iterator[OverwriteBucket]:
        """The buckets of a row, each with our changes that it does not contain yet: in flight or buffered."""
        row = cell.row
        unsent = [entries for buffer in (self._flying, self._waiting) if (entries := buffer.row(cell))]
        for col, (prob, at_ms) in states.items():
            pending = 0.0
            for entries in unsent:
                if col in entries:
                    delta, delta_ms = entries[col]
                    latest = max(at_ms, delta_ms)
                    prob, pending = (decay(value, at_ms, latest, self._per_ms) for value in (prob, pending))
                    pending += decay(delta, delta_ms, latest, self._per_ms)
                    at_ms = latest
            yield OverwriteBucket(row, col, prob, at_ms, pending)

    # -- rows that the store has lost ----------------------------------------------------------------------------------

    def lost_rows(self) -> list[RowId]:
        """Rows that the store has lost and that the caller must `restore`."""
        return sorted(self._lost)

    def restore(self, cell: RowId, buckets: Sequence[OverwriteBucket]) -> None:
        """Restores a lost row. Without buckets the row in the store is accepted as it is."""
        self._lost.discard(cell)
        if not buckets:
            self._mark_restored(cell)
            return
        states = [(bucket.col_id, bucket.prob, bucket.last_update_time_ms) for bucket in buckets]
        for start in range(0, len(states), PUSHED_BUCKETS_MAX):
            self._restores.append(RowRestore(cell, tuple(states[start : start + PUSHED_BUCKETS_MAX])))

    # -- the machine ------------------------------------------------------------------------------------------------

    def status(self, now: float) -> SyncStatus:
        queue = len(self._waiting) + len(self._flying)
        return SyncStatus(bool(self._failures), self._has_heard, self._peers.count(now), self._offset_ms, queue)

    def flush_now(self) -> None:
        """Makes the buffered changes due now, unless the store is unreachable."""
        if not self._failures:
            self._next_at = float("-inf")

    def deadline(self) -> float | None:
        return None if self._is_sent else self._next_at

    def handle(self, event: ExchangeReplied | ExchangeFailed | None, now: float) -> list[SyncBatch]:
        match event:
            case ExchangeReplied(reply):
                self._on_reply(reply, now)
            case ExchangeFailed():
                self._on_failure(now)
            case None:
                pass  # only the time has changed
        # One batch in flight: two could be applied in either order, and a pull could miss a push that was sent before
        # it.
        if self._is_sent or now < self._next_at:
            return []
        if self._batch is None:
            self._batch = self._build_batch()
            self._attempts = 0
        if self._batch is None:
            self._next_at = now + self._jitter(self._settings.flush_s)
            return []
        self._is_sent = True
        return [self._batch]

    def _build_batch(self) -> SyncBatch | None:
        """Everything buffered, as one batch; None if there is nothing. An unreachable store gets an empty batch: a
        probe."""
        assert not self._flying, "a new batch is built only when none is in flight"
        wanted, self._requested = sorted(self._requested), set()
        self._retain_seeds({*wanted, *(cell.seed for cell in self._seen)})
        pulls = tuple(self._pull(RowId(seed, row)) for seed in wanted for row in range(self._levels))
        pushes = tuple(self._waiting.pushes(self._number))
        restores, self._restores = tuple(self._restores), []
        if not (pulls or pushes or restores or self._failures):
            return None
        # The store remembers the last number of each instance, so a batch that is sent twice is applied once.
        self._number += len(pushes)
        # Swapped, not copied: what is recorded from now on is exactly what the batch does not contain (THR-1).
        self._flying, self._waiting = self._waiting, self._flying
        return SyncBatch(restores, pushes, pulls)

    def _pull(self, cell: RowId) -> RowPull:
        return RowPull(cell, self._read.get(cell, RowVersion()))

    def _on_reply(self, reply: SyncReply, now: float) -> None:
        assert self._batch is not None, "a reply without a batch"
        restored = {restore.cell for restore in self._batch.restores}
        # The first rows after an outage lack what was dropped meanwhile, so they are treated like rows that were lost.
        if self._has_gap and self._batch.pulls:
            self._has_gap = False
            self._mark_lost({pull.cell for pull in self._batch.pulls})
        self._batch, self._is_sent, self._failures = None, False, 0
        # The reply proves that the batch was applied.
        self._flying.clear()
        self._next_at = now + self._jitter(self._settings.flush_s)
        for written in (*reply.restored, *reply.pushed):
            self.counters.duplicates += written.is_duplicate
            self._learn(written.cell, written.mark, written.states)
            self._count(written)
        for row in reply.pulled:
            self._peers.on_writers(row.writers, now)
            self._learn(row.cell, row.mark, row.states)
            self._read[row.cell] = row.mark
        for cell in restored - self._lost:
            self._mark_restored(cell)
        self._has_heard = self._has_heard or bool(reply.pulled)
        self._set_clock(reply)

    def _mark_lost(self, cells: set[RowId]) -> None:
        """The store has less of these rows than the instances know."""
        self._lost |= cells
        self._withheld |= cells

    def _mark_restored(self, cell: RowId) -> None:
        """The row is complete again. What was read of it meanwhile was withheld, so the whole row is read again."""
        self._withheld.discard(cell)
        self._read.pop(cell, None)

    def _learn(self, cell: RowId, mark: RowVersion, states: dict[int, BucketState] | None) -> None:
        """Records the version of a row, and passes its state on unless the store has lost part of it."""
        known = self._seen.get(cell)
        self._seen[cell] = mark
        # A row is lost if it was created again, or if its version went backwards: a failover to a replica that lagged.
        if known and known.version and (mark.born_us != known.born_us or mark.version < known.version):
            self.counters.losses += 1
            self._mark_lost({cell})
        if states and cell not in self._withheld and not self._has_gap:
            self._arrived.setdefault(cell, {}).update(states)
            # A reader that does not take its rows must not fill the memory; the oldest window is of the least use.
            if len(self._arrived) > SEEDS_MAX * self._levels:
                del self._arrived[min(self._arrived)]

    def _count(self, written: RowWrite) -> None:
        """Our own write, directly after the version that was read, leaves nothing unread; otherwise the row is read
        again."""
        read = self._read.get(written.cell)
        # Any other version means that another instance has written in between, whose columns are still unread.
        if read and written.mark == RowVersion(read.born_us, read.version + 1):
            self._read[written.cell] = written.mark

    def _on_failure(self, now: float) -> None:
        self._is_sent = False
        self.counters.errors += 1
        self._attempts += 1
        # While the store is unreachable a failed probe is not repeated at once: the pause between probes grows instead.
        if not self._failures and self._attempts < self._retry.attempts_max:
            self._next_at = now + self._retry.delay(self._attempts, self._random)
            return
        if self._batch is not None:
            # The restores of this batch may not have been applied, so their rows still count as lost.
            self._lost |= {restore.cell for restore in self._batch.restores}
        self._batch = None
        self._failures += 1
        self.counters.dropped += self._flying.clear() + self._waiting.clear()
        self._read.clear()  # our buckets contain the dropped changes until all rows are read again
        self._has_gap = True
        self._next_at = now + PROBE.delay(self._failures, self._random)

    def _set_clock(self, reply: SyncReply) -> None:
        """All instances use the store's clock. It is known to half a round trip, so smaller offsets are noise."""
        if reply.server_ms is None:
            return
        measured = reply.server_ms - reply.at_ms
        # The server's time is known to half a round trip; 500 is that half in ms for a round trip in seconds.
        if abs(measured - self._offset_ms) > max(OFFSET_STEP_MS, reply.round_trip_s * 500):
            self._offset_ms = round(measured) if abs(measured) > OFFSET_STEP_MS else 0

    def _retain_seeds(self, seeds: set[int]) -> None:
        """Drops the records of windows that have ended."""
        if len(seeds) <= SEEDS_MAX:
            return
        oldest = sorted(seeds)[-SEEDS_MAX]
        self._seen = {cell: mark for cell, mark in self._seen.items() if cell.seed >= oldest}
        self._read = {cell: mark for cell, mark in self._read.items() if cell.seed >= oldest}
        for cells in (self._lost, self._withheld):
            cells -= {cell for cell in cells if cell.seed < oldest}
        self._restores = [restore for restore in self._restores if restore.cell.seed >= oldest]

    def _jitter(self, seconds: float) -> float:
        return seconds * self._random.uniform(1 - JITTER, 1 + JITTER)


class Peers:
    """The instances that share the rows, and when the batch number of each last grew.

    Every row lists its writers with their last numbers, and an instance whose number grows is alive. While the store is
    unreachable, an instance multiplies its steps by the count: it sees only its own part of the failures.
    """

    def __init__(self, instance: str) -> None:
        self._instance = instance
        self._last_seen: dict[str, tuple[int, float]] = {}
        self._updated_at = 0.0

    def on_writers(self, writers: Mapping[str, int], now: float) -> None:
        self._updated_at = now
        for instance, number in writers.items():
            known = self._last_seen.get(instance)
            # Only a growing number proves that the instance is alive; its last one stays in the row until the row
            # expires.
            if known is None or number > known[0]:
                self._last_seen[instance] = (number, now)
        if len(self._last_seen) > PEERS_MAX:
            newest = sorted(self._last_seen.items(), key=lambda each: each[1][1])[-PEERS_MAX:]
            self._last_seen = dict(newest)

    def count(self, now: float) -> int:
        """Live instances, including this one. Ages stand still while no row is read."""
        since = min(now, self._updated_at) - LIVE_S
        # Ages stand still during an outage: otherwise the count would fall to 1 exactly when the gain needs it.
        others = {name for name, (_, at) in self._last_seen.items() if at >= since}
        return len(others | {self._instance})


PUSHED_BUCKETS_MAX = 200  # of one row in one call: about 1 ms on the server, which blocks all other clients

_NOTHING: Mapping[int, tuple[float, int]] = {}


class DeltaBuffer:
    """Changes that the store does not have yet, summed by row and column.

    There is one entry per bucket however many changes it had, so the size is bounded by the number of buckets and not
    by the traffic. The explicit bound is for callers of the storage service that pass arbitrary buckets.
    """

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
        # All or nothing, so that the caller can count what was not accepted.
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
            # Both are decayed to the later time before they are added, as the store does it.
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
