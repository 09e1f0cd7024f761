"""What happened, line by line, and its fingerprint: two runs are the same if their fingerprints are."""

import hashlib
from collections import deque
from collections.abc import Callable

TRACE_TAIL_LINES_MAX = 400  # the end of the trace, kept for whoever looks into a violation


class Trace:
    """Every line counts towards the fingerprint; only the last ones are kept, unless all are asked for."""

    def __init__(self, true_now: Callable[[], float], *, keeps_all: bool = False) -> None:
        self._true_now = true_now
        self._hash = hashlib.blake2b(digest_size=16)
        self._lines: deque[str] = deque(maxlen=None if keeps_all else TRACE_TAIL_LINES_MAX)

    def add(self, text: str) -> None:
        # Microseconds are enough to notice any difference, and read better.
        line = f"{self._true_now():.6f} {text}"
        self._hash.update(line.encode())
        self._lines.append(line)

    def fingerprint(self) -> str:
        return self._hash.hexdigest()

    def trace_tail(self, about: str = "") -> list[str]:
        """The last lines, or those of them that mention something."""
        return [line for line in self._lines if about in line]
