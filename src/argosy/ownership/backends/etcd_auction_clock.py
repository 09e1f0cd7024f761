"""When an auction began, for a store that has no clock to ask.

etcd's transactions cannot read a clock, and the clocks of different machines are never compared. So each closer counts
an auction's window from when it first saw the auction, by its own clock: nobody closes too early, and whoever saw it
first closes on time.
"""

from argosy.base.clock import Clock

AUCTIONS_SEEN_MAX = 10_000  # of an auction forgotten because there are more, the window starts anew


class FirstSeen:
    """When this process first saw each auction."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[int, float] = {}

    def note(self, auction: int) -> float:
        """Remembers an auction if it is new, and says for how long it has been known."""
        now = self._clock.now()
        if auction not in self._seen and len(self._seen) >= AUCTIONS_SEEN_MAX:
            del self._seen[next(iter(self._seen))]
        return now - self._seen.setdefault(auction, now)

    def forget(self, auction: int) -> None:
        self._seen.pop(auction, None)

    def __len__(self) -> int:
        return len(self._seen)
