"""However the process ends, a surviving write implies all earlier ones, and no orphans remain."""

import asyncio
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from argosy.ipni.backends.rocks import PIECE, TURNS, RocksStore
from tests.contracts.index_store_stage import ALICE, many, sha, value
from tests.ipni.backends import writing

SWEEP_ALL = 10_000_000


async def test_a_killed_writer_leaves_a_cursor_that_is_never_ahead_of_its_data(tmp_path: Path) -> None:
    last = write_until_killed(tmp_path / "store", chunks=7)
    store = await RocksStore.open(tmp_path / "store")
    cursor = int(await store.read(b"cursor") or b"-1")
    assert cursor >= last
    for at in range(cursor + 1):
        expected = [(value(ALICE, writing.context(at)),)] * writing.CHUNK
        assert await store.find(writing.chunk(at)) == expected, at
    assert await store.find(writing.chunk(cursor + 2)) == [()] * writing.CHUNK
    await store.put(value(ALICE, writing.context(cursor + 1)), writing.chunk(cursor + 1))
    assert () not in await store.find(writing.chunk(cursor + 1))
    await store.remove_provider(ALICE)
    assert await store.sweep(SWEEP_ALL) >= (cursor + 2) * writing.CHUNK
    await store.compact()
    assert (await store.stats()).entries == 0
    await store.close()


def write_until_killed(database: Path, *, chunks: int) -> int:
    """Kills it at a random moment; returns the last chunk it reported."""
    command = [sys.executable, "-m", "tests.ipni.backends.writing", str(database)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        translate_errors = [int(child.stdout.readline()) for _ in range(chunks)]
        child.send_signal(signal.SIGKILL)
        translate_errors += [int(line) for line in child.stdout.read().split("\n")[:-1]]
    assert translate_errors[-1] < writing.CHUNKS_MAX - 1
    return translate_errors[-1]


async def test_any_surviving_part_of_the_log_is_a_consistent_prefix(tmp_path: Path) -> None:
    store = await RocksStore.open(tmp_path / "store")
    for at in range(30):
        await store.put(value(context=b"%d" % at), [sha("shared"), sha(f"{at}")], {b"cursor": b"%d" % at})
    (log,) = (each for each in (tmp_path / "store").glob("*.log") if each.stat().st_size)
    size = log.stat().st_size
    seen = set()
    for prefix_bytes in range(size // 8, size, size // 8):
        image = tmp_path / f"kept {prefix_bytes}"
        shutil.copytree(tmp_path / "store", image, ignore=shutil.ignore_patterns("LOCK"))
        with (image / log.name).open("r+b") as file:
            file.truncate(prefix_bytes)
        found = await RocksStore.open(image)
        cursor = int(await found.read(b"cursor") or b"-1")
        values = [value(context=b"%d" % at) for at in range(cursor + 1)]
        assert await found.find([sha("shared")]) == [tuple(values)]
        expected = [(each,) for each in values] + [()] * (29 - cursor)
        assert await found.find([sha(f"{at}") for at in range(30)]) == expected
        seen.add(cursor)
        await found.close()
    assert len(seen) > 4
    await store.close()


@pytest.mark.parametrize("is_known", [False, True])
async def test_a_cancelled_put_leaves_nothing_that_cannot_be_freed(tmp_path: Path, is_known: bool) -> None:
    store = await RocksStore.open(tmp_path / "store")
    if is_known:
        await store.put(value(), [sha("before")])
    hashes = many("file", 5 * PIECE)
    putting = asyncio.create_task(store.put(value(), hashes, {b"cursor": b"1"}))
    for _ in range(2 * TURNS):  # it has started, and written a part of it
        await asyncio.sleep(0)
    assert PIECE <= (await store.stats()).entries < 5 * PIECE
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    found = await store.find(hashes)
    assert await store.read(b"cursor") is None
    assert set(found) == ({(value(),), ()} if is_known else {()})
    await store.remove_context(ALICE, b"context")
    assert PIECE <= await store.sweep(SWEEP_ALL) < 5 * PIECE
    await store.compact()
    assert (await store.stats()).entries == 0
    await store.close()


async def test_all_is_there_after_a_restart(tmp_path: Path) -> None:
    hashes = many("file", 3 * PIECE)
    store = await RocksStore.open(tmp_path / "store")
    await store.put(value(context=b"1"), hashes, {b"cursor": b"1"})
    await store.put(value(context=b"2"), hashes)
    await store.remove_context(ALICE, b"1")
    assert await store.sweep(100) == 100
    await store.close()
    store = await RocksStore.open(tmp_path / "store")
    assert await store.find(hashes) == [(value(context=b"2"),)] * len(hashes)
    assert await store.sweep(SWEEP_ALL) == len(hashes) - 100
    await store.put(value(context=b"3"), hashes[:1])
    assert await store.find(hashes[:1]) == [(value(context=b"2"), value(context=b"3"))]
    await store.close()
