"""What every contender tells, alike for all: when its first job has run, when it began to put, when the last has run.

Times are those of the machine's monotonic clock, which its processes share.
"""

import sys
import threading
import time
from collections.abc import Callable

READY, BEGAN, PUT, DONE = "ready", "began", "put", "done"
GROUP = "race"
PAYLOAD = "x" * 100


class Count:
    """Jobs that have run in this process; the first one only shows that the worker works."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left = -1

    def expect(self, jobs: int) -> None:
        self._left = jobs + 1
        self._first = self._left

    def one(self) -> None:
        with self._lock:
            self._left -= 1
            left = self._left
        if left == self._first - 1:
            say(READY)
        if left == 0:
            say(DONE)


def say(event: str) -> None:
    sys.stdout.write(f"{event} {time.monotonic()}\n")
    sys.stdout.flush()


COUNT = Count()


def main(work: Callable[[str], None], produce: Callable[[str, int], None]) -> None:
    """Reads the command line; `produce` says BEGAN itself, when it is connected."""
    what, url, jobs = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if what == "work":
        COUNT.expect(jobs)
        work(url)
    else:
        produce(url, jobs)
        say(PUT)
