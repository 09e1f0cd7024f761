"""One store in a process of its own, so that its CPU, its threads' too, can be told from everything else.

    python -m argosy.bench.ipni.store_program NAME FOLDER COUNT

Puts so many multihashes in chunks, as an indexer does, looks some up one at a time, closes, and prints what it took as
JSON. Nothing of ours is loaded for the others: they may live where our dependencies are not.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, Protocol

CHUNK = 16_384
SOUGHT = 10_000  # and as many that are absent
NUMBER = b"\x01"  # of the one value that all have
HEAD = b"\x12\x20"
PROVIDER = "12D3KooWEW5GoYak4S23Z9rSiKHAcKWx9qH7rwVgCsmvRyvghB8x"
LMDB_BYTES_MAX = 1 << 40  # of address space


class Store(Protocol):
    def put(self, digests: Sequence[bytes]) -> None: ...

    def found(self, digests: Sequence[bytes]) -> int:
        """How many of them are there, looked up one at a time."""
        ...

    def close(self) -> None: ...


class Argosy:
    """Ours, by the same calls that an indexer makes: with inverse lists, and values behind the numbers."""

    def __init__(self, folder: Path) -> None:
        from argosy.ipni.backends.rocks import RocksStore
        from argosy.ipni.model import IndexValue

        self._loop = asyncio.new_event_loop()
        self._store = self._loop.run_until_complete(RocksStore.open(folder))
        self._value = IndexValue(PROVIDER, b"context", b"metadata")

    def put(self, digests: Sequence[bytes]) -> None:
        self._loop.run_until_complete(self._store.put(self._value, [HEAD + each for each in digests]))

    def found(self, digests: Sequence[bytes]) -> int:
        return self._loop.run_until_complete(self._found(digests))

    async def _found(self, digests: Sequence[bytes]) -> int:
        found = 0
        for each in digests:
            [values] = await self._store.find([HEAD + each])
            found += bool(values)
        return found

    def close(self) -> None:
        self._loop.run_until_complete(self._store.close())
        self._loop.close()


class RocksdictAlone:
    """The engine as it comes: one batch for a chunk, nothing but the keys."""

    def __init__(self, folder: Path) -> None:
        from rocksdict import Options, Rdict

        self._db = Rdict(str(folder), Options(raw_mode=True))

    def put(self, digests: Sequence[bytes]) -> None:
        from rocksdict import WriteBatch

        batch = WriteBatch(raw_mode=True)
        for each in digests:
            batch.put(each + NUMBER, b"")
        self._db.write(batch)

    def found(self, digests: Sequence[bytes]) -> int:
        return sum(self._db.get(each + NUMBER) is not None for each in digests)

    def close(self) -> None:
        self._db.flush()
        self._db.close()


class Sqlite:
    def __init__(self, folder: Path) -> None:
        import sqlite3

        folder.mkdir()
        self._db = sqlite3.connect(folder / "index.db", isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute("CREATE TABLE entries (digest BLOB, number INT, PRIMARY KEY (digest, number)) WITHOUT ROWID")

    def put(self, digests: Sequence[bytes]) -> None:
        self._db.execute("BEGIN")
        self._db.executemany("INSERT OR IGNORE INTO entries VALUES (?, 1)", [(each,) for each in sorted(digests)])
        self._db.execute("COMMIT")

    def found(self, digests: Sequence[bytes]) -> int:
        look = "SELECT number FROM entries WHERE digest = ?"
        return sum(self._db.execute(look, (each,)).fetchone() is not None for each in digests)

    def close(self) -> None:
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._db.close()


class Lmdb:
    def __init__(self, folder: Path) -> None:
        lmdb = import_module("lmdb")  # only the environment of the peers has it
        self._db: Any = lmdb.open(str(folder), map_size=LMDB_BYTES_MAX, sync=False)

    def put(self, digests: Sequence[bytes]) -> None:
        with self._db.begin(write=True) as change, change.cursor() as cursor:
            cursor.putmulti([(each + NUMBER, b"") for each in sorted(digests)])

    def found(self, digests: Sequence[bytes]) -> int:
        found = 0
        for each in digests:
            with self._db.begin() as look:
                found += look.get(each + NUMBER) is not None
        return found

    def close(self) -> None:
        self._db.sync(True)
        self._db.close()


STORES: dict[str, Callable[[Path], Store]] = {
    "argosy": Argosy,
    "rocksdict": RocksdictAlone,
    "sqlite": Sqlite,
    "lmdb": Lmdb,
}


def measured(name: str, folder: Path, count: int) -> dict[str, float]:
    """Rates by the clock, CPU in microseconds for each, bytes on disk for each once it is closed."""
    random = Random(name)
    store = STORES[name](folder)
    kept: list[bytes] = []
    put_s = put_cpu_s = 0.0
    for _ in range(max(1, count // CHUNK)):
        chunk = [random.randbytes(32) for _ in range(CHUNK)]
        kept += chunk[:: max(1, count // SOUGHT)]
        began, cpu_s = time.perf_counter(), time.process_time()
        store.put(chunk)
        put_s += time.perf_counter() - began
        put_cpu_s += time.process_time() - cpu_s
    sought = kept[:SOUGHT]
    absent = [random.randbytes(32) for _ in sought]
    random.shuffle(sought)
    cpu_s = time.thread_time()  # other threads may still write
    found = store.found(sought), store.found(absent)
    get_cpu_s = time.thread_time() - cpu_s
    assert found == (len(sought), 0), found
    began, cpu_s = time.perf_counter(), time.process_time()
    store.close()  # what is still to be written belongs to the puts
    put_s += time.perf_counter() - began
    put_cpu_s += time.process_time() - cpu_s
    puts = max(1, count // CHUNK) * CHUNK
    return {
        "put": puts / put_s,
        "put_cpu": put_cpu_s / puts * 1e6,
        "get_cpu": get_cpu_s / (2 * len(sought)) * 1e6,
        "disk": sum(each.stat().st_blocks * 512 for each in folder.rglob("*") if each.is_file()) / puts,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measured(sys.argv[1], Path(sys.argv[2]).absolute(), int(sys.argv[3]))) + "\n")
