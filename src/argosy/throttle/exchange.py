"""The exchange with the shared store, as a machine: changes go out in batches, state comes in, and nothing ever waits.

One order is under way at a time, and within an order pushes come before pulls. So what is fetched contains every change
sent before it, and what it cannot contain is exactly what still waits here: that is told along with it, and the race
between update and request that the document describes cannot happen.

When the store fails, the same batch is sent again with back-off and jitter (the store knows its number, so twice is
once), and then dropped: replaying the changes of a long outage would punish clients for what is long forgiven. From
then on the store counts as away: nothing is kept for it, and now and then an order without changes asks whether it is
back.

When the store has lost rows (a restart, a failover to a replica that lagged), it answers with less than it knew, and
after an outage with less than the instances have learnt meanwhile. Such an answer is not passed on; instead whoever
holds the buckets is asked to restore the row first.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from argosy.base.clock import Random
from argosy.base.retry import Backoff
from argosy.throttle.blue import decay
from argosy.throttle.delta_buffer import PUSHED_BUCKETS_MAX, DeltaBuffer
from argosy.throttle.model import Config
from argosy.throttle.ports import (
    BucketState,
    OverwriteBucket,
    RespBucket,
    RowId,
    RowPull,
    RowRestore,
    RowVersion,
    RowWrite,
    SyncBatch,
    SyncReply,
    Update,
)
from argosy.throttle.settings import ThrottleSettings

JITTER = 0.1  # of every wait, so that instances started together do not stay in step
RETRY_FIRST_S, RETRY_CEILING_S = 0.05, 0.4
PROBE = Backoff(first_s=1.0, ceiling_s=5.0)
SEEDS_MAX = 4  # windows that are kept account of; two are in use, the others are just over
OFFSET_STEP_MS = 50  # a clock this close to the store's is right: correcting it would only make it jump
LIVE_S = 60.0  # an instance that pushes nothing for this long has no failures to speak of
PEERS_MAX = 10_000  # remembered; instances that restart take new names


@dataclass(frozen=True)
class ExchangeReplied:
    """The store has carried out the order."""

    reply: SyncReply


@dataclass(frozen=True)
class ExchangeFailed:
    """The store has not, or not all of it, or has not said so."""


@dataclass
class SyncCounters:
    """What has happened so far."""

    errors: int = 0
    dropped: int = 0  # changes, each of one bucket
    duplicates: int = 0
    losses: int = 0  # rows


@dataclass(frozen=True)
class SyncStatus:
    """How things stand with the store."""

    is_away: bool
    has_heard: bool  # at least once
    peers: int  # instances that have pushed of late, this one included
    offset_ms: int  # to be added to this machine's clock
    queue: int  # buckets with changes on their way


class StoreExchange:
    """A `Machine` of `Replied` and `Failed` to `Order`, and behind the storage service of the document."""

    def __init__(self, config: Config, settings: ThrottleSettings, random: Random, *, instance: str) -> None:
        self._levels = config.levels
        self._per_ms = config.decay_per_ms
        self._settings = settings
        self._random = random
        self._retry = Backoff(first_s=RETRY_FIRST_S, ceiling_s=RETRY_CEILING_S, attempts_max=settings.attempts_max)
        self._waiting = DeltaBuffer(self._per_ms, settings.queue_max)
        self._flying = DeltaBuffer(self._per_ms, settings.queue_max)
        self._number = 0
        self._order: SyncBatch | None = None  # until it has succeeded or was given up
        self._is_sent = False  # and its answer is not here yet
        self._attempts = 0
        self._failures = 0  # orders given up in a row; the store is away while there are any
        self._next_at = 0.0
        self._wanted: set[int] = set()
        self._seen: dict[RowId, RowVersion] = {}  # the latest mark, by which a loss is noticed
        self._read: dict[RowId, RowVersion] = {}  # the mark up to which all columns are known here
        self._lost: set[RowId] = set()
        self._restores: list[RowRestore] = []
        self._withheld: set[RowId] = set()  # lost, and not yet restored
        self._has_gap = False  # changes were dropped, and no row was read since
        self._arrived: dict[RowId, dict[int, BucketState]] = {}
        self._peers = Peers(instance)
        self._offset_ms = 0
        self._has_heard = False
        self.figures = SyncCounters()

    # -- the storage service ----------------------------------------------------------------------------------------

    def update(self, updates: Sequence[Update]) -> None:
        """Takes changes in; while the store is away they are dropped at once."""
        if self._failures:
            self.figures.dropped += sum(len(update.deltas) for update in updates)
        else:
            self._waiting.add(updates)

    def request(self, seed: int) -> None:
        """Asks for a window with the next order."""
        self._wanted.add(seed)
        if len(self._wanted) > SEEDS_MAX:
            self._wanted.discard(min(self._wanted))

    def take(self) -> list[RespBucket]:
        """All that has arrived since the last call, row by row."""
        arrived, self._arrived = self._arrived, {}
        return [RespBucket(cell.seed, list(self._told(cell, states))) for cell, states in arrived.items()]

    def _told(self, cell: RowId, states: dict[int, BucketState]) -> Iterator[OverwriteBucket]:
        """The buckets of a row, each with what it does not contain yet of what we have sent or are about to."""
        row = cell.row
        under_way = [entries for ledger in (self._flying, self._waiting) if (entries := ledger.row(cell))]
        for col, (prob, at_ms) in states.items():
            pending = 0.0
            for entries in under_way:
                if col in entries:
                    delta, delta_ms = entries[col]
                    latest = max(at_ms, delta_ms)
                    prob, pending = (decay(value, at_ms, latest, self._per_ms) for value in (prob, pending))
                    pending += decay(delta, delta_ms, latest, self._per_ms)
                    at_ms = latest
            yield OverwriteBucket(row, col, prob, at_ms, pending)

    # -- rows that the store has lost -------------------------------------------------------------------------------

    def lost(self) -> list[RowId]:
        """Rows that the store has forgotten and that somebody should `restore`."""
        return sorted(self._lost)

    def restore(self, cell: RowId, buckets: Sequence[OverwriteBucket]) -> None:
        """What a lost row contained; with nothing to say, what the store has now is good enough."""
        self._lost.discard(cell)
        if not buckets:
            self._trust(cell)
            return
        states = [(bucket.col_id, bucket.prob, bucket.last_update_time_ms) for bucket in buckets]
        for start in range(0, len(states), PUSHED_BUCKETS_MAX):
            self._restores.append(RowRestore(cell, tuple(states[start : start + PUSHED_BUCKETS_MAX])))

    # -- the machine ------------------------------------------------------------------------------------------------

    def standing(self, now: float) -> SyncStatus:
        queue = len(self._waiting) + len(self._flying)
        return SyncStatus(bool(self._failures), self._has_heard, self._peers.count(now), self._offset_ms, queue)

    def hurry(self) -> None:
        """Makes what waits due at once, unless the store is away."""
        if not self._failures:
            self._next_at = float("-inf")

    def deadline(self) -> float | None:
        return None if self._is_sent else self._next_at

    def handle(self, event: ExchangeReplied | ExchangeFailed | None, now: float) -> list[SyncBatch]:
        match event:
            case ExchangeReplied(reply):
                self._succeed(reply, now)
            case ExchangeFailed():
                self._fail(now)
            case None:
                pass  # only time has passed
        if self._is_sent or now < self._next_at:
            return []
        if self._order is None:
            self._order = self._formed()
            self._attempts = 0
        if self._order is None:
            self._next_at = now + self._jittered(self._settings.flush_s)
            return []
        self._is_sent = True
        return [self._order]

    def _formed(self) -> SyncBatch | None:
        """All that waits as one order; None if nothing does, unless the store is away: then the order is a question."""
        assert not self._flying, "a new order is formed only when nothing is under way"
        wanted, self._wanted = sorted(self._wanted), set()
        self._forget_all_but({*wanted, *(cell.seed for cell in self._seen)})
        pulls = tuple(self._pull(RowId(seed, row)) for seed in wanted for row in range(self._levels))
        pushes = tuple(self._waiting.pushes(self._number))
        restores, self._restores = tuple(self._restores), []
        if not (pulls or pushes or restores or self._failures):
            return None
        self._number += len(pushes)
        self._flying, self._waiting = self._waiting, self._flying
        return SyncBatch(restores, pushes, pulls)

    def _pull(self, cell: RowId) -> RowPull:
        return RowPull(cell, self._read.get(cell, RowVersion()))

    def _succeed(self, reply: SyncReply, now: float) -> None:
        assert self._order is not None, "an answer to no order"
        restored = {restore.cell for restore in self._order.restores}
        if self._has_gap and self._order.pulls:
            self._has_gap = False
            self._mistrust({pull.cell for pull in self._order.pulls})
        self._order, self._is_sent, self._failures = None, False, 0
        self._flying.clear()
        self._next_at = now + self._jittered(self._settings.flush_s)
        for written in (*reply.restored, *reply.pushed):
            self.figures.duplicates += written.is_duplicate
            self._learn(written.cell, written.mark, written.states)
            self._count(written)
        for row in reply.pulled:
            self._peers.hear(row.writers, now)
            self._learn(row.cell, row.mark, row.states)
            self._read[row.cell] = row.mark
        for cell in restored - self._lost:
            self._trust(cell)
        self._has_heard = self._has_heard or bool(reply.pulled)
        self._set_clock(reply)

    def _mistrust(self, cells: set[RowId]) -> None:
        """What the store has of these is less than what is known here."""
        self._lost |= cells
        self._withheld |= cells

    def _trust(self, cell: RowId) -> None:
        """The row is as good as it gets; what it has said meanwhile was not passed on, so it is read again."""
        self._withheld.discard(cell)
        self._read.pop(cell, None)

    def _learn(self, cell: RowId, mark: RowVersion, states: dict[int, BucketState] | None) -> None:
        """Remembers a row's mark, and passes its state on unless the row is not what it was."""
        known = self._seen.get(cell)
        self._seen[cell] = mark
        if known and known.version and (mark.born_us != known.born_us or mark.version < known.version):
            self.figures.losses += 1
            self._mistrust({cell})
        if states and cell not in self._withheld and not self._has_gap:
            self._arrived.setdefault(cell, {}).update(states)
            if len(self._arrived) > SEEDS_MAX * self._levels:
                del self._arrived[min(self._arrived)]

    def _count(self, written: RowWrite) -> None:
        """A write of ours next to what we have read leaves nothing unread; after a gap the row must be read again."""
        read = self._read.get(written.cell)
        if read and written.mark == RowVersion(read.born_us, read.version + 1):
            self._read[written.cell] = written.mark

    def _fail(self, now: float) -> None:
        self._is_sent = False
        self.figures.errors += 1
        self._attempts += 1
        if not self._failures and self._attempts < self._retry.attempts_max:
            self._next_at = now + self._retry.delay(self._attempts, self._random)
            return
        if self._order is not None:
            self._lost |= {restore.cell for restore in self._order.restores}
        self._order = None
        self._failures += 1
        self.figures.dropped += self._flying.clear() + self._waiting.clear()
        self._read.clear()  # what was dropped stands in our buckets until all is read anew
        self._has_gap = True
        self._next_at = now + PROBE.delay(self._failures, self._random)

    def _set_clock(self, reply: SyncReply) -> None:
        """The store's clock is everybody's. It is known to half a round trip, so smaller differences mean nothing."""
        if reply.server_ms is None:
            return
        measured = reply.server_ms - reply.at_ms
        if abs(measured - self._offset_ms) > max(OFFSET_STEP_MS, reply.round_trip_s * 500):
            self._offset_ms = round(measured) if abs(measured) > OFFSET_STEP_MS else 0

    def _forget_all_but(self, seeds: set[int]) -> None:
        """Windows come and go; what is known of their rows goes with them."""
        if len(seeds) <= SEEDS_MAX:
            return
        oldest = sorted(seeds)[-SEEDS_MAX]
        self._seen = {cell: mark for cell, mark in self._seen.items() if cell.seed >= oldest}
        self._read = {cell: mark for cell, mark in self._read.items() if cell.seed >= oldest}
        for cells in (self._lost, self._withheld):
            cells -= {cell for cell in cells if cell.seed < oldest}
        self._restores = [restore for restore in self._restores if restore.cell.seed >= oldest]

    def _jittered(self, seconds: float) -> float:
        return seconds * self._random.uniform(1 - JITTER, 1 + JITTER)


class Peers:
    """The instances heard of, and when each last said something new."""

    def __init__(self, instance: str) -> None:
        self._instance = instance
        self._heard: dict[str, tuple[int, float]] = {}
        self._heard_at = 0.0

    def hear(self, writers: Mapping[str, int], now: float) -> None:
        self._heard_at = now
        for instance, number in writers.items():
            known = self._heard.get(instance)
            if known is None or number > known[0]:
                self._heard[instance] = (number, now)
        if len(self._heard) > PEERS_MAX:
            newest = sorted(self._heard.items(), key=lambda each: each[1][1])[-PEERS_MAX:]
            self._heard = dict(newest)

    def count(self, now: float) -> int:
        """Live instances, this one included. Nobody ages while nothing can be heard."""
        since = min(now, self._heard_at) - LIVE_S
        others = {name for name, (_, at) in self._heard.items() if at >= since}
        return len(others | {self._instance})
