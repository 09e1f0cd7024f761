"""What a run leaves behind: its trace with a fingerprint, and the violations that checkers have found."""

import hashlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

TRACE_TAIL_LINES_MAX = 400  # kept in memory, to look into a violation


class Trace:
    """All lines are in the fingerprint; only the last ones are in memory, unless `keeps_all`.

    Two runs are the same if their fingerprints are. That is how nondeterminism is found, which no single run shows.
    """

    def __init__(self, true_now: Callable[[], float], *, keeps_all: bool = False) -> None:
        self._true_now = true_now
        self._hash = hashlib.blake2b(digest_size=16)
        self._lines: deque[str] = deque(maxlen=None if keeps_all else TRACE_TAIL_LINES_MAX)

    def add(self, text: str) -> None:
        # Microseconds are enough to notice any difference. A message must not contain the `repr` of a set or an `id`.
        line = f"{self._true_now():.6f} {text}"
        self._hash.update(line.encode())
        self._lines.append(line)

    def fingerprint(self) -> str:
        return self._hash.hexdigest()

    def trace_tail(self, about: str = "") -> list[str]:
        """The last lines, or those of them that contain `about`."""
        return [line for line in self._lines if about in line]


# -- violations -------------------------------------------------------------------------------------------------------

VIOLATIONS_MAX = 20  # of one world: the first ones matter, and the rest follows from them


@dataclass(frozen=True)
class Violation:
    """A broken invariant, at an instant of true time."""

    invariant: str
    at: float
    message: str

    def __str__(self) -> str:
        return f"{self.invariant} at {self.at:.3f} s: {self.message}"


class ViolationLog:
    """The violations of one world, in the order in which they were found."""

    def __init__(self, true_now: Callable[[], float]) -> None:
        self.true_now = true_now
        self.entries: list[Violation] = []

    def add(self, invariant: str, message: str) -> None:
        if len(self.entries) < VIOLATIONS_MAX:
            self.entries.append(Violation(invariant, self.true_now(), message))
