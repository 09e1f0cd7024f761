"""How much each repository is searched: what eviction goes by.

A count that halves every HALF_LIFE_S tells what is wanted nowadays; the plain count and the last instant are for
people. Noted on every search, so it is a plain call and no event.
"""

from collections.abc import Iterable
from dataclasses import dataclass

HALF_LIFE_S = 600.0


@dataclass(slots=True)
class _Use:
    searches: int = 0
    last_at: float = 0.0
    weight: float = 0.0  # as of last_at


class Traffic:
    """Searches by repository, of those that are kept."""

    def __init__(self) -> None:
        self._uses: dict[str, _Use] = {}

    def begin(self, name: str) -> None:
        """From now on searches of this repository are counted."""
        self._uses.setdefault(name, _Use())

    def forget(self, name: str) -> None:
        self._uses.pop(name, None)

    def note(self, names: Iterable[str], now: float) -> None:
        """These were searched; those that are not kept (any more) are passed over."""
        for name in names:
            if (use := self._uses.get(name)) is not None:
                use.weight = 1.0 + use.weight * _faded(now - use.last_at)
                use.searches += 1
                use.last_at = now

    def searches(self, name: str) -> int:
        return self._uses[name].searches if name in self._uses else 0

    def last_at(self, name: str) -> float | None:
        """When it was last searched; None: not yet."""
        use = self._uses.get(name)
        return use.last_at if use is not None and use.searches else None

    def weight(self, name: str, now: float) -> float:
        use = self._uses.get(name)
        return use.weight * _faded(now - use.last_at) if use is not None else 0.0


def _faded(seconds: float) -> float:
    return float(0.5 ** (max(0.0, seconds) / HALF_LIFE_S))
