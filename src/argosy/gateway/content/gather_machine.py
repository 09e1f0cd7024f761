"""When one find has waited long enough: the machine that hears of every indexer and knows when to stop.

While nothing is found everybody is waited for until the deadline, for a miss must be certain. Once something is found,
an indexer that is late by its own measure is waited for no longer; one that has begun to stream is, to the deadline.
What is not waited for is missing in the answer (GW-1).
"""

from collections.abc import Mapping

from argosy.gateway.content.model import BackendOutcome, MissingBackend


class GatherMachine:
    """One find. Tell it `began`, `found` and `ended` as they happen; ask `is_ready` and `is_over`."""

    def __init__(
        self,
        indexers: Mapping[str, float | BackendOutcome],
        *,
        now: float,
        deadline_s: float,
        is_one_enough: bool = False,
    ) -> None:
        """By name: how many seconds one is waited for before it is late, or why it is not asked at all."""
        self.has_found = False
        self._is_one_enough = is_one_enough
        self._ends_at = now + deadline_s
        self._names = tuple(indexers)
        self._late_at = {name: now + each for name, each in indexers.items() if not isinstance(each, BackendOutcome)}
        self._waiting = dict.fromkeys(self._late_at, False)  # by name: whether it has begun
        self._outcomes = {name: each for name, each in indexers.items() if isinstance(each, BackendOutcome)}

    def on_start(self, name: str) -> None:
        """Its answer arrives piece by piece from now on."""
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
        return self._is_one_enough or (not any(self._waiting.values()) and self._are_late(now))

    def is_ready(self, now: float) -> bool:
        """Whether an answer can begin: something is there, and nobody who is not late is still silent."""
        return self.is_over(now) or (self.has_found and self._are_late(now))

    def deadline(self) -> float:
        """When to look again if nothing happens."""
        silent = [self._late_at[name] for name, has_begun in self._waiting.items() if not has_begun]
        return min(self._ends_at, max(silent)) if self.has_found and silent else self._ends_at

    def missing(self, now: float) -> tuple[MissingBackend, ...]:
        """Whoever is not in the answer as it is now, but those who stream still."""
        if self._is_one_enough and self.has_found:
            return ()
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
