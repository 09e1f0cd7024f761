"""Counts how long auctions have been open, for a store without a clock.

etcd's transactions cannot read a clock, and clocks of different machines are never compared. Each closer therefore
counts an auction's window on its own clock, from when it first saw the auction: no node closes too early, and the node
that saw it first closes on time.
"""

from argosy.base.clock import Clock

AUCTIONS_SEEN_MAX = 10_000  # past this the oldest entry is dropped, and its window starts again


class AuctionClock:
    """Time since this process first saw each auction."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[int, float] = {}

    def elapsed_s(self, auction: int) -> float:
        """Records the auction if it is new, and returns for how long it has been known."""
        now = self._clock.now()
        if auction not in self._seen and len(self._seen) >= AUCTIONS_SEEN_MAX:
            del self._seen[next(iter(self._seen))]
        return now - self._seen.setdefault(auction, now)

    def remove(self, auction: int) -> None:
        self._seen.pop(auction, None)

    def __len__(self) -> int:
        return len(self._seen)
