"""The gather state machine of one find: decides how long to wait for which indexers.

Without a result it waits for every indexer until the deadline, because a miss must be certain. With a result it stops
waiting for indexers that are slower than usual, but not for those that have started to stream. Indexers that were not
awaited are missing from the answer (GW-1).
"""

from collections.abc import Mapping

from argosy.gateway.content.model import BackendOutcome, MissingBackend


class GatherMachine:
    """The state of one find. Report `on_start`, `on_found` and `on_end`; read `is_ready` and `is_over`."""

    def __init__(
        self,
        indexers: Mapping[str, float | BackendOutcome],
        *,
        now: float,
        deadline_s: float,
        is_one_enough: bool = False,
    ) -> None:
        """By name: seconds until an indexer is late, or the outcome if it is skipped."""
        self.has_found = False
        self._is_one_enough = is_one_enough
        self._ends_at = now + deadline_s
        self._names = tuple(indexers)
        self._late_at = {name: now + each for name, each in indexers.items() if not isinstance(each, BackendOutcome)}
        self._waiting = dict.fromkeys(self._late_at, False)  # by name: whether its response has started
        self._outcomes = {name: each for name, each in indexers.items() if isinstance(each, BackendOutcome)}

    def on_start(self, name: str) -> None:
        """Its response has started to stream."""
        if name in self._waiting:
            self._waiting[name] = True

    def on_found(self) -> None:
        self.has_found = True

    def on_end(self, name: str, outcome: BackendOutcome) -> None:
        if name in self._waiting:
            del self._waiting[name]
            self._outcomes[name] = outcome

    def is_over(self, now: float) -> bool:
        if not self._waiting or now >= self._ends_at:
            return True
        if not self.has_found:
            return False
        # A stream that has started is awaited up to the deadline: the headers count its indexer as complete.
        return self._is_one_enough or (not any(self._waiting.values()) and self._are_late(now))

    def is_ready(self, now: float) -> bool:
        """Whether an answer can start: there is a result, and every silent indexer is late."""
        return self.is_over(now) or (self.has_found and self._are_late(now))

    def deadline(self) -> float:
        """When to check again if nothing happens."""
        # The find ends when the last silent indexer is late, so the latest of their times counts.
        silent = [self._late_at[name] for name, has_begun in self._waiting.items() if not has_begun]
        return min(self._ends_at, max(silent)) if self.has_found and silent else self._ends_at

    def missing(self, now: float) -> tuple[MissingBackend, ...]:
        """Indexers missing from the answer now, except those that are still streaming."""
        # Encrypted metadata is the same at every indexer, so an answer from one of them lacks nothing.
        if self._is_one_enough and self.has_found:
            return ()
        # In the order of the operator's list, so that headers of identical answers are identical.
        whys = [(name, self._why_missing(name, now)) for name in self._names]
        return tuple(MissingBackend(name, why) for name, why in whys if why is not None)

    def _why_missing(self, name: str, now: float) -> BackendOutcome | None:
        if name not in self._waiting:
            return None if self._outcomes[name].is_whole else self._outcomes[name]
        if now >= self._ends_at:
            return BackendOutcome.TIMED_OUT
        return None if self._waiting[name] else BackendOutcome.LATE

    def _are_late(self, now: float) -> bool:
        return all(now >= self._late_at[name] for name, has_begun in self._waiting.items() if not has_begun)
