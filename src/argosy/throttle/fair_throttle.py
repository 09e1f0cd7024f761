"""`FairThrottle`: admission decided in this process within a microsecond.

    throttle = FairThrottle()
    if throttle.register(client).throttled: ...             # reject the request
    throttle.report(client, Outcome.FAILURE)                # the resource was short; Outcome.SUCCESS otherwise

No client is throttled while nothing fails, and a request without a blamed bucket takes no lock, reads no clock and
draws no random number: a bucket at zero clears its client at once. Everything else runs under one lock that is never
held across a wait, so threads and coroutines may share a throttle (THR-2).

Windows are rotated by the first caller that needs the clock: a request with blame, an outcome that changes a bucket, or
the background worker. A window that is not rotated because nothing is blamed has nothing to forget.
"""

import threading
import time
from collections.abc import Callable, Iterable
from heapq import nlargest
from math import exp, inf

from argosy.base.clock import Clock, Random, system_random
from argosy.base.errors import Invalid
from argosy.base.metrics import Metric, Metrics, counter
from argosy.throttle.blue import Bucket, clamp, decay, least, move, move_shared, probabilities
from argosy.throttle.levels import Levels, levels_of
from argosy.throttle.model import (
    ADMITTED,
    COST_MAX,
    BucketStats,
    ClientId,
    Config,
    Decision,
    Explanation,
    Outcome,
    ThrottleStats,
    retry_after_s,
    smallest,
)
from argosy.throttle.ports import BucketDelta, OverwriteBucket, RespBucket, RowId, Update
from argosy.throttle.rows import Squash, rebase
from argosy.throttle.windows import Entry, Windows

LOCKED_BUCKETS_MAX = 64  # buckets that the worker handles per lock, about 50 µs; requests run in between
ROUNDING = 1e-9  # a fetched value this close to ours differs only by the order of additions

REQUESTS_THROTTLED = counter("argosy_throttle_requests_throttled", "Rejected requests")
REQUESTS_SHADOWED = counter("argosy_throttle_requests_shadowed", "Requests admitted only because of shadow mode")
FAILURES_REPORTED = counter("argosy_throttle_failures_reported", "Requests that failed because the resource was short")

_WHOLE = 2.0**52  # adding and subtracting it rounds to a whole number: the fastest way to round
_SUCCESS, _FAILURE = Outcome.SUCCESS, Outcome.FAILURE


class FairThrottle:
    """A fair throttle. `weight_of` gives a client more than one share: with weight 2 it is blamed half as fast."""

    def __init__(
        self,
        config: Config | None = None,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        weight_of: Callable[[ClientId], float] | None = None,
        metrics: Metrics | None = None,
        levels: Callable[[Config, int], Levels] = levels_of,
    ) -> None:
        self.config = config = config or Config()
        self._wall = time.time if clock is None else clock.wall  # direct, on the hot path
        self._draw = (random or system_random()).random
        self._per_ms = config.decay_per_ms
        # Computed once: everything that the hot path needs is an attribute, because each lookup in the config costs
        # time.
        self._ceiling = 1.0 - config.admitted_min
        self._is_min = config.final is smallest
        self._is_explaining = config.is_explaining
        self._is_quick = self._is_min and not config.is_explaining
        self._failure_step, self._success_step = config.failure_step, config.success_step
        self._lock = threading.Lock()
        self._dirty: list[Bucket] | None = None  # None while the state is not shared
        self._gain = 1.0
        self._offset_ms = 0.0
        self._throttled = self._shadowed = self._failures = 0
        self._metrics = metrics
        self._windows = Windows(config, self.now_ms(), levels=levels, weight_of=weight_of)

    # -- the hot path -----------------------------------------------------------------------------------------------

    def register(self, client_id: ClientId, cost: float = 1.0) -> Decision:
        """Decides on a request. A request of cost c passes as rarely as c requests in a row."""
        # Nearly all requests have cost 1, which needs no check.
        if cost != 1.0:
            _check_cost(cost)
        try:
            entry = self._windows.young[client_id]
        except KeyError:
            entry = self._meet(client_id)
        if self._is_quick:
            # With the minimum as final probability one bucket at zero decides. Neither clock nor lock nor random number
            # is needed, which makes a healthy request three times as fast as a congested one.
            for bucket in entry[0]:
                if not bucket.probability:
                    return ADMITTED
        return self._weigh(client_id, entry, cost)

    def report(self, client_id: ClientId, outcome: Outcome, cost: float = 1.0) -> None:
        """Reports the outcome of an admitted request; throttled requests are not reported."""
        if cost != 1.0:
            _check_cost(cost)
        if outcome is _SUCCESS:
            try:
                entry = self._windows.young[client_id]
            except KeyError:
                entry = self._meet(client_id)
            # A success changes nothing where all buckets are zero, so a healthy system has no changes to push either.
            for bucket in entry[1]:
                if bucket.probability:
                    self._learn(client_id, -self._success_step, cost)
                    return
        elif outcome is _FAILURE:
            self._failures += 1  # like all counters here without the lock: threads may lose an increment
            self._count(FAILURES_REPORTED)
            self._learn(client_id, self._failure_step, cost)
        else:
            raise Invalid(f"an outcome is Outcome.SUCCESS or Outcome.FAILURE, not {outcome!r}")

    def _meet(self, client_id: ClientId) -> Entry:
        with self._lock:
            return self._windows.entry(client_id)

    def _weigh(self, client_id: ClientId, entry: Entry, cost: float) -> Decision:
        windows = self._windows
        now_ms = self._wall() * 1000.0 + _WHOLE - _WHOLE + self._offset_ms
        if now_ms >= windows.ends_ms or now_ms < windows.since_ms:
            self.rotate()
            entry = self._meet(client_id)
        buckets, _, weight = entry
        chance = least(buckets, now_ms, self._per_ms) if self._is_min else self._probability(buckets, now_ms)
        burden = 1.0
        if cost != weight:
            burden = cost / weight
            # The probability that one of `burden` independent draws rejects, so splitting a batch gains nothing.
            chance = 1.0 - (1.0 - chance) ** burden
        if chance > self._ceiling:
            chance = self._ceiling
        explanation = self._explain(buckets, now_ms) if self._is_explaining else None
        # `>=`: with chance 0 every request passes and with chance 1 none does, because a draw is below 1.
        if self._draw() >= chance:
            return Decision(False, chance, False, explanation)
        if self.config.is_shadow:
            self._shadowed += 1
            self._count(REQUESTS_SHADOWED)
            return Decision(False, chance, True, explanation)
        self._throttled += 1
        self._count(REQUESTS_THROTTLED)
        return Decision(True, chance, False, explanation, burden)

    def _learn(self, client_id: ClientId, step: float, cost: float) -> None:
        windows = self._windows
        now_ms = self._wall() * 1000.0 + _WHOLE - _WHOLE + self._offset_ms
        if now_ms >= windows.ends_ms or now_ms < windows.since_ms:
            self.rotate()
        self._lock.acquire()  # `with` takes twice as long, and this is the most expensive part of a report
        try:
            # Looked up under the lock, because the windows may have rotated meanwhile.
            try:
                _, buckets, weight = windows.young[client_id]
            except KeyError:
                _, buckets, weight = windows.entry(client_id)
            step *= self._gain * cost / weight
            if self._dirty is None:
                move(buckets, step, now_ms, self._per_ms)
            else:
                move_shared(buckets, step, now_ms, self._per_ms, self._dirty)
        finally:
            self._lock.release()

    def _probability(self, buckets: tuple[Bucket, ...], now_ms: float) -> float:
        if self._is_min:
            return least(buckets, now_ms, self._per_ms)
        return clamp(self.config.final(probabilities(buckets, now_ms, self._per_ms)))

    # -- time -------------------------------------------------------------------------------------------------------

    def now_ms(self) -> float:
        """The time of the buckets: this machine's clock, corrected by the offset of the shared store's clock."""
        return self._wall() * 1000.0 + _WHOLE - _WHOLE + self._offset_ms

    def rotate(self) -> float:
        """Rotates the windows if they are due, and returns the time."""
        now_ms = self.now_ms()
        if not self._windows.since_ms <= now_ms < self._windows.ends_ms:
            with self._lock:
                self._windows.rotate(now_ms)
        return now_ms

    # -- statistics --------------------------------------------------------------------------------------------------

    def explain(self, client_id: ClientId) -> Explanation:
        """The state of a client's buckets, without a decision."""
        now_ms = self.rotate()
        with self._lock:
            main = self._windows.entry(client_id)[0]
        return self._explain(main, now_ms)

    def retry_after_s(self, decision: Decision) -> float:
        """The Retry-After of a throttled client: the time until half of such requests pass, if it sends none."""
        return retry_after_s(decision.probability, self.config.decay_per_s, burden=decision.burden)

    def hottest(self, count: int) -> list[BucketStats]:
        """The buckets of the current window with the highest probabilities, highest first."""
        now_ms = self.rotate()
        blamed = [bucket for bucket in self._windows.main.existing_buckets() if bucket.probability]
        return nlargest(count, (self._stats(bucket, now_ms) for bucket in blamed), key=lambda stats: stats.probability)

    def noisiest(self, count: int) -> list[tuple[ClientId, float]]:
        """The cached clients with the highest probabilities; innocent clients of the same buckets are among them."""
        now_ms = self.rotate()
        with self._lock:
            known = self._windows.clients()
        # Computed without the lock, from entries that were copied under it: there may be tens of thousands.
        standing = ((client, self._probability(entry[0], now_ms)) for client, entry in known.items())
        return nlargest(count, (each for each in standing if each[1]), key=lambda each: each[1])

    def stats(self) -> ThrottleStats:
        """Statistics of the whole throttle."""
        now_ms = self.rotate()
        windows = self._windows
        standing = probabilities(windows.main.existing_buckets(), now_ms, self._per_ms)
        return ThrottleStats(
            window_seed=windows.main.seed,
            next_seed=windows.next.seed,
            rotates_in_s=(windows.ends_ms - now_ms) / 1000,
            buckets=len(standing),
            blamed=sum(1 for probability in standing if probability),
            hottest=max(standing, default=0.0),
            clients=len(windows.clients()),
            throttled=self._throttled,
            shadowed=self._shadowed,
            failures=self._failures,
            gain=self._gain,
        )

    def measure(self, metrics: Metrics) -> None:
        """Counts in these metrics from now on, unless it has some already; counts so far are added to them."""
        if self._metrics is None:
            metrics.inc(REQUESTS_THROTTLED, by=self._throttled)
            metrics.inc(REQUESTS_SHADOWED, by=self._shadowed)
            metrics.inc(FAILURES_REPORTED, by=self._failures)
            self._metrics = metrics

    def _count(self, counter: Metric) -> None:
        if self._metrics is not None:
            self._metrics.inc(counter)

    def _explain(self, buckets: tuple[Bucket, ...], now_ms: float) -> Explanation:
        standing = tuple(self._stats(bucket, now_ms) for bucket in buckets)
        return Explanation(buckets[0].seed, self._probability(buckets, now_ms), standing)

    def _stats(self, bucket: Bucket, now_ms: float) -> BucketStats:
        return BucketStats(bucket.row, bucket.col, decay(bucket.probability, bucket.at_ms, now_ms, self._per_ms))

    # -- for the background worker ------------------------------------------------------------------------------------

    @property
    def seeds(self) -> tuple[int, int]:
        """The seeds of the current window and of the next."""
        windows = self._windows
        return windows.main.seed, windows.next.seed

    def share(self) -> None:
        """Records changes for `collect` from now on."""
        with self._lock:
            if self._dirty is None:
                self._dirty = []

    def collect(self) -> list[Update]:
        """The changes since the last call, of the two windows in use."""
        found: dict[int, list[BucketDelta]] = {seed: [] for seed in self.seeds}
        while self._dirty:
            with self._lock:
                # From the end, so that removing a chunk from the list moves no other entry.
                for bucket in self._dirty[-LOCKED_BUCKETS_MAX:]:
                    if bucket.seed in found and bucket.unsent:
                        delta = BucketDelta(bucket.row, bucket.col, bucket.unsent, int(bucket.at_ms))
                        found[bucket.seed].append(delta)
                    bucket.is_dirty, bucket.unsent = False, 0.0
                del self._dirty[-LOCKED_BUCKETS_MAX:]
        return [Update(seed, deltas) for seed, deltas in found.items() if deltas]

    def absorb(self, responses: Iterable[RespBucket], squash: Squash = rebase) -> int:
        """Merges fetched buckets; returns how many of ours that has changed."""
        changed = 0
        for response in responses:
            buckets = response.updates
            for start in range(0, len(buckets), LOCKED_BUCKETS_MAX):
                with self._lock:
                    changed += self._merge(response.seed, buckets[start : start + LOCKED_BUCKETS_MAX], squash)
        return changed

    def _merge(self, seed: int, buckets: Iterable[OverwriteBucket], squash: Squash) -> int:
        window = self._windows.of_seed(seed)
        # The reply to a request of the previous window may arrive after the rotation.
        if window is None:
            return 0  # the window is over
        per_ms, changed = self._per_ms, 0
        for row, col, prob, fetched_ms, pending in buckets:
            bucket = window.find(row, col)
            if bucket is None:
                continue
            local, unsent, at_ms = bucket.probability, bucket.unsent, bucket.at_ms
            if fetched_ms > at_ms:
                factor = exp(-per_ms * (fetched_ms - at_ms))
                local, unsent, at_ms = local * factor, unsent * factor, float(fetched_ms)
            elif fetched_ms < at_ms:
                factor = exp(-per_ms * (at_ms - fetched_ms))
                prob, pending = prob * factor, pending * factor
            squashed = clamp(squash(local, prob, pending + unsent))
            # Without this tolerance every pull would rewrite every bucket, and count it as changed by others.
            if abs(squashed - local) > ROUNDING:
                bucket.probability, bucket.unsent, bucket.at_ms = squashed, unsent, at_ms
                changed += 1
        return changed

    def contents(self, cell: RowId, *, above: float) -> list[OverwriteBucket]:
        """The buckets of a row above a probability: what a store that has lost the row is given back."""
        now_ms = self.rotate()
        with self._lock:
            window = self._windows.of_seed(cell.seed)
        used = () if window is None else window.existing_buckets()
        held = [bucket for bucket in used if bucket.row == cell.row and bucket.probability > above]
        return [
            OverwriteBucket(bucket.row, bucket.col, bucket.probability, int(bucket.at_ms))
            for bucket in held
            if decay(bucket.probability, bucket.at_ms, now_ms, self._per_ms) > above
        ]

    def adjust(self, *, gain: float = 1.0, offset_ms: int = 0) -> None:
        """Sets the clock offset and the factor of all steps: while the store is unreachable, each instance sees only
        a part of the failures and multiplies its steps by the number of instances."""
        if not 0 < gain < inf:
            raise Invalid(f"the gain must be more than 0, not {gain}")
        self._gain = gain
        self._offset_ms = float(offset_ms)


def _check_cost(cost: float) -> None:
    if not 0 < cost <= COST_MAX:
        raise Invalid(f"the cost of a request must be more than 0 and at most {COST_MAX}, not {cost}")
