"""The design document's scheme, literally implemented for comparison: not part of the product.

Probabilities are summed with an unbounded increment, the newest time wins without anything having
decayed, and fetched values overwrite local ones.
"""

import math
from collections.abc import Sequence
from random import Random

from argosy.throttle.levels import levels_of
from argosy.throttle.model import Config, Outcome

Place = tuple[int, int]


class LiteralStore:
    """Hashes with HINCRBYFLOAT on the probability and the greatest time."""

    def __init__(self) -> None:
        self.rows: dict[Place, tuple[float, int]] = {}
        self.extremes = (0.0, 0.0)  # the least and the greatest value ever stored

    def increment(self, place: Place, delta: float, at_ms: int) -> None:
        prob, stored_ms = self.rows.get(place, (0.0, 0))
        self.rows[place] = prob + delta, max(stored_ms, at_ms)
        self.extremes = min(self.extremes[0], prob + delta), max(self.extremes[1], prob + delta)


class LiteralInstance:
    """Decides like the original within one window, and shares as the document describes."""

    def __init__(self, config: Config, store: LiteralStore, random: Random) -> None:
        self._config = config
        self._store = store
        self._random = random
        self._levels = levels_of(config, 0)
        self._buckets: dict[Place, tuple[float, int]] = {}
        self._deltas: dict[Place, float] = {}

    def _places(self, client: str) -> Sequence[Place]:
        return list(enumerate(self._levels(client.encode())))

    def _decayed(self, place: Place, now_ms: int) -> float:
        prob, at_ms = self._buckets.get(place, (0.0, now_ms))
        return prob * math.exp(-self._config.decay_per_ms * max(0, now_ms - at_ms))

    def register(self, client: str, now_ms: int) -> bool:
        return self._random.random() < min(1.0, *(self._decayed(place, now_ms) for place in self._places(client)))

    def report(self, client: str, outcome: Outcome, now_ms: int) -> None:
        step = self._config.failure_step if outcome is Outcome.FAILURE else -self._config.success_step
        for place in self._places(client):
            before = self._decayed(place, now_ms)
            after = min(1.0, max(0.0, before + step))
            self._buckets[place] = after, now_ms
            self._deltas[place] = self._deltas.get(place, 0.0) + after - before

    def share(self, now_ms: int) -> None:
        """Pushes all changes, then overwrites the local state with everything pulled."""
        for place, delta in self._deltas.items():
            self._store.increment(place, delta, self._buckets[place][1])
        self._deltas.clear()
        self._buckets.update(self._store.rows)
