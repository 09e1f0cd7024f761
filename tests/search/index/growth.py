"""Builds an index of 100 MB of real and generated text; prints its memory by the system's account and by ours."""

import ctypes
import gc
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from argosy.search.documents import Content, Entry
from argosy.search.index.build import build
from argosy.search.index.sections import memory_bytes, text_bytes
from argosy.search.model import Repository
from argosy.search.skip_policy import Policy

MADE_BYTES = 80_000_000  # the library without its tests has about 20
FILE_BYTES = 200_000


class Mixed:
    """The standard library and generated text; read on request, so that nothing of it stays in memory."""

    repository = Repository("mixed")

    def __init__(self, *, made_bytes: int) -> None:
        library = Path(sysconfig.get_paths()["stdlib"])
        files = [path for path in sorted(library.rglob("*.py")) if not {"site-packages", "test"} & set(path.parts)]
        self._files = {str(path).encode(): path for path in files}
        self._words = [f"word_{number:x} ".encode() for number in Random(1).sample(range(1 << 24), 20_000)]
        real = [Entry(path, path, file.stat().st_size) for path, file in self._files.items()]
        made = [Entry(b"%d.c" % number, b"%d" % number, FILE_BYTES) for number in range(made_bytes // FILE_BYTES)]
        self._entries = real + made

    def entries(self) -> Sequence[Entry]:
        return self._entries

    def read(self, entries: Sequence[Entry]) -> Iterator[Content]:
        for entry in entries:
            yield self._files[entry.path].read_bytes() if entry.path in self._files else self._made(entry.path)

    def _made(self, path: bytes) -> bytes:
        random = Random(path)
        line = b"".join(random.choices(self._words, k=8)) + b"\n"
        lines = [line, *(b"".join(random.choices(self._words, k=8)) + b"\n" for _ in range(200))]
        return b"".join(random.choices(lines, k=FILE_BYTES // len(line)))


def private_bytes() -> int:
    """What only this process has in memory, after everything free was given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


# What the first build of all leaves behind (compiled patterns, the interpreter's own pools) is no part of an index.
build(Mixed(made_bytes=FILE_BYTES), Policy())
source = Mixed(made_bytes=MADE_BYTES)
before = private_bytes()
index = build(source, Policy())
sys.stdout.write(f"{private_bytes() - before} {memory_bytes(index)} {text_bytes(index)}\n")
