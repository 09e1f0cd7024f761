"""Peers of the content index's store: RocksDB as it comes, SQLite and LMDB, with the same keys and no inverse lists.

    python -m bench.peers.ipni rocksdict|sqlite|lmdb DIRECTORY COUNT

runs one of them in a process of its own. LMDB is in the environment of the peers, the others are in Argosy's.
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from argosy.base.errors import ArgosyError
from argosy.bench.harness import Bench, Run
from argosy.bench.ipni.stores import DigestStore, run_program, run_store_program, store_run
from bench.peers import environment

PROGRAM = "bench.peers.ipni"
NUMBER = b"\x01"  # of the only value
LMDB_BYTES_MAX = 1 << 40  # of address space


async def store_runs(bench: Bench, scratch: Path, multihashes: int) -> Mapping[str, Run]:
    """A run for each store that is here; a note has the reason if LMDB is not."""
    variables = environment.process_environment()
    runs = {
        name: store_run(scratch, PROGRAM, name, sys.executable, multihashes, variables)
        for name in ("rocksdict", "sqlite")
    }
    try:
        python = str(await asyncio.to_thread(environment.ensure_environment))
        await run_store_program(scratch / "lmdb-try", PROGRAM, "lmdb", python, 1, variables)
        runs["lmdb"] = store_run(scratch, PROGRAM, "lmdb", python, multihashes, variables)
    except ArgosyError as error:
        bench.notes.append(f"lmdb: not measured, {error}")
    return runs


class RocksdictStore:
    """The engine below Argosy's store, alone: one batch for a chunk, nothing but the keys."""

    def __init__(self, directory: Path) -> None:
        from rocksdict import Options, Rdict

        self._db = Rdict(str(directory), Options(raw_mode=True))

    def put(self, digests: Sequence[bytes]) -> None:
        from rocksdict import WriteBatch

        batch = WriteBatch(raw_mode=True)
        for each in digests:
            batch.put(each + NUMBER, b"")
        self._db.write(batch)

    def count_present(self, digests: Sequence[bytes]) -> int:
        return sum(self._db.get(each + NUMBER) is not None for each in digests)

    def close(self) -> None:
        self._db.flush()
        self._db.close()


class SqliteStore:
    """A table without rowid, so that a digest is stored once; digests are sorted, which SQLite inserts faster."""

    def __init__(self, directory: Path) -> None:
        import sqlite3

        directory.mkdir()
        self._db = sqlite3.connect(directory / "index.db", isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute("CREATE TABLE entries (digest BLOB, number INT, PRIMARY KEY (digest, number)) WITHOUT ROWID")

    def put(self, digests: Sequence[bytes]) -> None:
        self._db.execute("BEGIN")
        self._db.executemany("INSERT OR IGNORE INTO entries VALUES (?, 1)", [(each,) for each in sorted(digests)])
        self._db.execute("COMMIT")

    def count_present(self, digests: Sequence[bytes]) -> int:
        select = "SELECT number FROM entries WHERE digest = ?"
        return sum(self._db.execute(select, (each,)).fetchone() is not None for each in digests)

    def close(self) -> None:
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._db.close()


class LmdbStore:
    """Sorted puts of a chunk in one transaction, synced when it closes."""

    def __init__(self, directory: Path) -> None:
        lmdb = import_module("lmdb")  # only in the environment of the peers
        self._db: Any = lmdb.open(str(directory), map_size=LMDB_BYTES_MAX, sync=False)

    def put(self, digests: Sequence[bytes]) -> None:
        with self._db.begin(write=True) as change, change.cursor() as cursor:
            cursor.putmulti([(each + NUMBER, b"") for each in sorted(digests)])

    def count_present(self, digests: Sequence[bytes]) -> int:
        found = 0
        for each in digests:
            with self._db.begin() as view:
                found += view.get(each + NUMBER) is not None
        return found

    def close(self) -> None:
        self._db.sync(True)
        self._db.close()


STORES: dict[str, type[DigestStore]] = {"rocksdict": RocksdictStore, "sqlite": SqliteStore, "lmdb": LmdbStore}


if __name__ == "__main__":
    run_program(STORES)
