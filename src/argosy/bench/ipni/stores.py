"""The store of the content index alone: blind puts of digests in chunks, and lookups, with other stores as peers.

    python -m argosy.bench.ipni.stores argosy DIRECTORY COUNT

runs one store in a process of its own, so that its CPU time includes its background threads and nothing else. It puts
COUNT multihashes in chunks, as an indexer does, looks some up one at a time, closes, and prints its measurements as
JSON. The programs of the peers use `measure_store` in an environment without Argosy's dependencies.
"""

import asyncio
import json
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import Protocol

from argosy.base.errors import Unavailable
from argosy.bench.harness import Bench, Run, Values
from argosy.bench.ipni import figures

CHUNK = 16_384
SOUGHT = 10_000  # present digests, and as many absent ones
DIGEST_BYTES = 32
HEAD = b"\x12\x20"  # of a multihash with a digest of sha2-256
PROVIDER = "12D3KooWEW5GoYak4S23Z9rSiKHAcKWx9qH7rwVgCsmvRyvghB8x"
RUN_S_MAX = 600.0
ERROR_CHARACTERS_MAX = 500  # of the error output of a process

_numbers = count()


async def measure_stores(bench: Bench, scratch: Path, multihashes: int, repeats: int) -> None:
    adapters = bench.load_peers()
    peers: Mapping[str, Run] = {}
    if adapters is not None:
        peers = await adapters.store_runs(bench, scratch, multihashes)
    own = store_run(scratch, __name__, "argosy", sys.executable, multihashes)
    await bench.measure(*figures.STORES, run=own, peers=peers, repeats=repeats)
    bench.notes.append(
        f"store: {multihashes:,} digests in chunks, closing included; argosy also stores inverse lists, the others "
        "only the keys. storetheindex is not measured: it is a Go program without a package"
    )


def store_run(
    scratch: Path, module: str, name: str, python: str, multihashes: int, env: Mapping[str, str] | None = None
) -> Run:
    async def run() -> Values:
        directory = scratch / f"store-{name}-{next(_numbers)}"
        values = await run_store_program(directory, module, name, python, multihashes, env)
        return {f"store.{figure}": value for figure, value in values.items()}

    return run


async def run_store_program(
    directory: Path, module: str, name: str, python: str, multihashes: int, env: Mapping[str, str] | None = None
) -> dict[str, float]:
    """Run a store program with a new directory, and remove the directory."""
    process = await asyncio.create_subprocess_exec(
        python,
        "-m",
        module,
        name,
        str(directory),
        str(multihashes),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=env,
    )
    try:
        async with asyncio.timeout(RUN_S_MAX):
            output, errors = await process.communicate()
    except TimeoutError as error:
        raise Unavailable(f"the store {name} timed out after {RUN_S_MAX:g} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
    if process.returncode:
        raise Unavailable(f"the store {name} failed: {_last_line(errors)}")
    values: dict[str, float] = json.loads(output)
    return values


def _last_line(errors: bytes) -> str:
    """The exception of a traceback."""
    lines = errors.decode(errors="replace").strip().splitlines() or ["no error output"]
    return lines[-1][-ERROR_CHARACTERS_MAX:]


# -- in the process of a store ----------------------------------------------------------------------------------------


class DigestStore(Protocol):
    """A store of digests that all have the same value."""

    def put(self, digests: Sequence[bytes]) -> None: ...

    def count_present(self, digests: Sequence[bytes]) -> int:
        """How many of them are stored, looked up one at a time."""
        ...

    def close(self) -> None: ...


class ArgosyStore:
    """Through the calls that an indexer makes: with inverse lists for removals, and values behind the numbers."""

    def __init__(self, directory: Path) -> None:
        from argosy.ipni.backends.rocks import RocksStore
        from argosy.ipni.model import IndexValue

        self._loop = asyncio.new_event_loop()
        self._store = self._loop.run_until_complete(RocksStore.open(directory))
        self._value = IndexValue(PROVIDER, b"context", b"metadata")

    def put(self, digests: Sequence[bytes]) -> None:
        self._loop.run_until_complete(self._store.put(self._value, [HEAD + each for each in digests]))

    def count_present(self, digests: Sequence[bytes]) -> int:
        return self._loop.run_until_complete(self._count_present(digests))

    async def _count_present(self, digests: Sequence[bytes]) -> int:
        found = 0
        for each in digests:
            [values] = await self._store.find([HEAD + each])
            found += bool(values)
        return found

    def close(self) -> None:
        self._loop.run_until_complete(self._store.close())
        self._loop.close()


def measure_store(store: DigestStore, name: str, directory: Path, count: int) -> dict[str, float]:
    """The rate by the clock, CPU in microseconds per digest, and bytes on disk per digest after closing.

    A put may only fill a buffer that is written later, so closing belongs to the puts: both in time and in CPU.
    """
    random = Random(name)
    sample: list[bytes] = []
    put_s = put_cpu_s = 0.0
    for _ in range(max(1, count // CHUNK)):
        chunk = [random.randbytes(DIGEST_BYTES) for _ in range(CHUNK)]
        # From all chunks, because the first ones are compacted by the time they are looked up, and the last ones are
        # not.
        sample += chunk[:: max(1, count // SOUGHT)]
        started, cpu_s = time.perf_counter(), time.process_time()
        store.put(chunk)
        put_s += time.perf_counter() - started
        put_cpu_s += time.process_time() - cpu_s
    present = sample[:SOUGHT]
    absent = [random.randbytes(DIGEST_BYTES) for _ in present]
    random.shuffle(present)
    cpu_s = time.thread_time()  # of this thread alone: background threads may still write
    found = store.count_present(present), store.count_present(absent)
    get_cpu_s = time.thread_time() - cpu_s
    assert found == (len(present), 0), found
    started, cpu_s = time.perf_counter(), time.process_time()
    store.close()
    put_s += time.perf_counter() - started
    put_cpu_s += time.process_time() - cpu_s
    puts = max(1, count // CHUNK) * CHUNK
    return {
        "put": puts / put_s,
        "put_cpu": put_cpu_s / puts * 1e6,
        "get_cpu": get_cpu_s / (2 * len(present)) * 1e6,
        # Allocated blocks, and not the length of the files: stores preallocate.
        "disk": sum(each.stat().st_blocks * 512 for each in directory.rglob("*") if each.is_file()) / puts,
    }


def run_program(stores: Mapping[str, type[DigestStore]]) -> None:
    """The main function of a store program."""
    name, directory, count = sys.argv[1], Path(sys.argv[2]).absolute(), int(sys.argv[3])
    store = stores[name](directory)  # type: ignore[call-arg]
    sys.stdout.write(json.dumps(measure_store(store, name, directory, count)) + "\n")


if __name__ == "__main__":
    run_program({"argosy": ArgosyStore})
