"""How many instances share the load: every row says who has pushed to it, and up to which number.

An instance whose number grows is alive. The count is what a lone instance multiplies its steps by while the store is
away: it sees but one part of the failures, and stands for all.
"""

from collections.abc import Mapping

LIVE_S = 60.0  # an instance that pushes nothing for this long has no failures to speak of
PEERS_MAX = 10_000  # remembered; instances that restart take new names


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
