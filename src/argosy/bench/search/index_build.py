"""How fast an index is built, with reading told apart, and what it weighs by our account and by the system's."""

import ctypes
import gc
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from argosy.bench.search.programs import Spent
from argosy.search.backends.folder import FolderSource
from argosy.search.documents import Content, Entry, Source
from argosy.search.index.build import build
from argosy.search.index.index import Index
from argosy.search.model import Repository
from argosy.search.skip_policy import Policy


class Watched:
    """A source that knows how much CPU was spent on listing and reading it."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.cpu_s = 0.0

    @property
    def repository(self) -> Repository:
        return self._source.repository

    def entries(self) -> Sequence[Entry]:
        began = time.process_time()
        found = self._source.entries()
        self.cpu_s += time.process_time() - began
        return found

    def read(self, entries: Sequence[Entry]) -> Iterator[Content]:
        contents = self._source.read(entries)
        while True:
            began = time.process_time()
            content = next(contents, None)
            self.cpu_s += time.process_time() - began
            if content is None:
                return
            yield content


@dataclass(frozen=True)
class Making:
    """An index, and what it cost to make it."""

    index: Index
    whole: Spent
    read_cpu_s: float

    @property
    def index_cpu_s(self) -> float:
        return self.whole.cpu_s - self.read_cpu_s


def made(folder: Path, *, with_symbols: bool) -> Making:
    """Building is the work of one thread, so its CPU is that of one core."""
    source = Watched(FolderSource(str(folder), with_ignored=True))
    cpu, wall = time.process_time(), time.perf_counter()
    index = build(source, Policy(), with_symbols=with_symbols)
    whole = Spent(time.process_time() - cpu, time.perf_counter() - wall)
    return Making(index, whole, source.cpu_s)


def private_bytes() -> int | None:
    """What only this process has in memory, after everything free was given back; None where nobody tells."""
    gc.collect()
    if not sys.platform.startswith("linux"):
        return None
    ctypes.CDLL(None).malloc_trim(0)
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
