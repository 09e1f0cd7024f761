"""Rounds: a small errand to every repository, each at its own time, a few under way at once.

Looks at origins and checks of memory are both such errands. What is due waits in line until there is a place, in the
order in which it became due, so that a thousand repositories after a restart do not go all at once.
"""

from argosy.search.fleet.agenda import TimerHeap


class PeriodicScheduler:
    """Errands of one kind."""

    def __init__(self, *, places: int) -> None:
        self._places = places
        self._agenda: TimerHeap[str] = TimerHeap()
        self._line: dict[str, None] = {}
        self._under_way: dict[int, str] = {}

    def deadline(self) -> float | None:
        return self._agenda.first()

    def __contains__(self, name: str) -> bool:
        """Whether an errand is planned, or due and in line."""
        return name in self._agenda or name in self._line

    def at(self, name: str) -> float | None:
        return self._agenda.at(name)

    def set(self, name: str, at: float) -> None:
        """The next errand to this name, in place of the one that was planned."""
        self._line.pop(name, None)
        self._agenda.set(name, at)

    def cancel(self, name: str) -> None:
        """No errand to this name; one that is under way goes on, and keeps its place until it ends."""
        self._line.pop(name, None)
        self._agenda.remove(name)

    def next(self, now: float) -> str | None:
        """The next to go to, if anyone is due and there is a place."""
        self._line.update(dict.fromkeys(self._agenda.due(now)))
        if not self._line or len(self._under_way) >= self._places:
            return None
        name = next(iter(self._line))
        del self._line[name]
        return name

    def begin(self, number: int, name: str) -> None:
        self._under_way[number] = name

    def end(self, number: int) -> str | None:
        return self._under_way.pop(number, None)

    @property
    def under_way(self) -> int:
        return len(self._under_way)
