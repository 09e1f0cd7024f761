"""A store in a folder yields to other tasks, waits for compaction, and frees space."""

import asyncio
from pathlib import Path

import pytest

from argosy.base.errors import Unavailable
from argosy.ipni.backends import rocks_database
from argosy.ipni.backends.rocks import BEHIND_S_MAX, PIECE, RocksStore
from tests.contracts.index_store_stage import ALICE, BOB, many, sha, value


class CountedClock:
    """Time that passes only during sleeps."""

    def __init__(self) -> None:
        self.sleeps = 0
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def wall(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.sleeps += 1
        self.time += seconds
        await asyncio.sleep(0)


async def test_finds_are_answered_during_a_large_put(tmp_path: Path) -> None:
    store = await RocksStore.open(tmp_path)
    await store.put(value(context=b"1"), [sha("known")])
    putting = asyncio.create_task(store.put(value(context=b"2"), many("file", 10 * PIECE)))
    finds = 0
    while not putting.done():
        assert await store.find([sha("known")]) == [(value(context=b"1"),)]
        finds += 1
        await asyncio.sleep(0)
    assert finds >= 9
    await store.close()


async def test_writers_take_turns_and_each_write_is_atomic(tmp_path: Path) -> None:
    store = await RocksStore.open(tmp_path)
    chunks = {provider: many(provider, 3 * PIECE) for provider in (ALICE, BOB)}
    await asyncio.gather(
        *(store.put(value(provider), hashes) for provider, hashes in chunks.items()),
        store.remove_context(ALICE, b"none"),
        store.sweep(10),
    )
    for provider, hashes in chunks.items():
        assert await store.find(hashes) == [(value(provider),)] * len(hashes)
        assert await store.context_size(provider, b"context") == len(hashes)
    await store.close()


async def test_many_files_to_compact_count_as_a_compaction_backlog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await RocksStore.open(tmp_path)
    monkeypatch.setattr(rocks_database, "_L0_FILES_BEHIND", 2)
    seen = []
    for at in range(2):
        await store.put(value(), [sha(f"{at}")])
        store._database.flush()
        seen.append(store._database.is_behind())
    await store.compact()
    assert [*seen, store._database.is_behind()] == [False, True, False]
    await store.close()


async def test_a_writer_waits_until_compaction_has_caught_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = CountedClock()
    store = await RocksStore.open(tmp_path, clock=clock)
    monkeypatch.setattr(store._database, "is_behind", lambda: clock.sleeps < 3)
    await store.put(value(), [sha("file")])
    assert clock.sleeps == 3
    assert await store.find([sha("file")]) == [(value(),)]
    await store.close()


async def test_a_writer_gives_up_when_compaction_never_catches_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = CountedClock()
    store = await RocksStore.open(tmp_path, clock=clock)
    monkeypatch.setattr(store._database, "is_behind", lambda: True)
    with pytest.raises(Unavailable, match=r"compaction.*check its disk"):
        await store.put(value(), [sha("file")])
    assert clock.time >= BEHIND_S_MAX
    await store.close()


@pytest.mark.parametrize("is_double_hashed", [False, True])
async def test_removal_frees_the_space(tmp_path: Path, is_double_hashed: bool) -> None:
    store = await RocksStore.open(tmp_path, is_double_hashed=is_double_hashed)
    await store.compact()
    empty = (await store.stats()).disk_bytes
    for at in range(5):
        await store.put(value(context=b"%d" % at), many(f"{at}", 10_000))
    await store.compact()
    full = (await store.stats()).disk_bytes
    for at in range(4):
        await store.remove_context(ALICE, b"%d" % at)
    await store.remove_provider(ALICE)
    assert await store.sweep(1_000_000) == 50_000
    await store.compact()
    assert (await store.stats()).entries == 0
    assert (await store.stats()).disk_bytes - empty < (full - empty) / 10
    await store.close()


async def test_an_entry_takes_few_bytes(tmp_path: Path) -> None:
    store = await RocksStore.open(tmp_path)
    await store.compact()
    empty = (await store.stats()).disk_bytes
    for at in range(6):
        await store.put(value(context=b"%d" % at), many(f"{at}", 10_000))
    await store.compact()
    assert ((await store.stats()).disk_bytes - empty) / 60_000 < 60
    await store.close()


async def test_a_running_scan_does_not_keep_the_store_open(tmp_path: Path) -> None:
    store = await RocksStore.open(tmp_path)
    await store.write({b"%04d" % each: b"" for each in range(600)})
    scan = store.scan(b"")
    assert await anext(scan) == (b"0000", b"")
    await store.close()
    with pytest.raises(Unavailable, match="closed during a scan"):
        async for _ in scan:
            pass
    await (await RocksStore.open(tmp_path)).close()
