"""Range operations, on both kinds of store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from argosy.ipni.backends.memory import RangedMemoryStore
from argosy.ipni.backends.rocks import RocksStore
from argosy.ipni.formats.privacy import second_digest
from argosy.ipni.keyspace.layout import SLOTS, bounds, slot_of
from argosy.ipni.model import IndexValue
from argosy.ipni.ports import RangedStore
from tests.contracts.index_store_stage import ALICE, BOB, digests_with_prefix, many, sha, unusual, value

ALL = [*many("file", 60), *digests_with_prefix(5), *unusual()]


@pytest.fixture(params=["memory", "rocks"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RangedStore]:
    opened: RangedStore
    if request.param == "memory":
        opened = RangedMemoryStore(is_double_hashed=True)
    else:
        opened = await RocksStore.open(tmp_path / "store", is_double_hashed=True)
    yield opened
    await opened.close()


async def read_all(store: RangedStore, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, IndexValue]]:
    found: list[tuple[bytes, IndexValue]] = []
    while True:
        page = await store.entries(start, end, limit=limit)
        assert len(page.entries) <= limit
        found += page.entries
        if not page.rest:
            return found
        start = page.rest


@pytest.mark.parametrize("limit", [1, 7, 1000])
async def test_the_pages_contain_every_entry_once(store: RangedStore, limit: int) -> None:
    await store.put(value(ALICE), ALL)
    await store.put(value(BOB), ALL[:10])
    found = await read_all(store, b"", b"", limit)
    wanted = [(each, value(ALICE)) for each in ALL] + [(each, value(BOB)) for each in ALL[:10]]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


async def test_a_slot_lists_only_its_own_entries(store: RangedStore) -> None:
    await store.put(value(), ALL)
    for multihash in ALL:
        slot = slot_of(multihash)
        own = [each for each, _ in await read_all(store, *bounds(slot), limit=2)]
        assert sorted(own) == sorted(each for each in ALL if slot_of(each) == slot)


async def test_removed_entries_are_not_listed(store: RangedStore) -> None:
    await store.put(value(ALICE), ALL)
    await store.put(value(BOB, metadata=b"of bob"), ALL[:3])
    await store.remove_context(ALICE, b"context")
    found = await read_all(store, b"", b"", limit=10)
    assert sorted(found) == sorted((each, value(BOB, metadata=b"of bob")) for each in ALL[:3])


async def test_dropping_a_slot_affects_no_other(store: RangedStore) -> None:
    for each in (value(ALICE), value(BOB)):
        await store.put(each, ALL)
    doomed = {slot_of(each) for each in ALL[::2]}
    dropped = 0
    for slot in doomed:
        while count := await store.drop(*bounds(slot), limit=3):
            assert count <= 3
            dropped += count
    gone = [each for each in ALL if slot_of(each) in doomed]
    remaining = [each for each in ALL if slot_of(each) not in doomed]
    assert dropped == 2 * len(gone)
    assert await store.find(gone) == [()] * len(gone)
    assert await store.find(remaining) == [(value(ALICE), value(BOB))] * len(remaining)
    assert (
        await store.find_second([second_digest(each) for each in (*gone, *remaining)]) == [None] * len(gone) + remaining
    )
    assert sorted(await store.multihashes(ALICE, b"context", start=b"", limit=1000)) == sorted(remaining)


async def test_dropped_entries_may_be_put_and_removed_again(store: RangedStore) -> None:
    await store.put(value(), ALL)
    assert await store.drop(b"", b"", limit=1000) == len(ALL)
    await store.put(value(), ALL[:5])
    assert await store.find(ALL[:6]) == [(value(),)] * 5 + [()]
    assert await store.find_second([second_digest(ALL[0])]) == [ALL[0]]
    await store.remove_context(ALICE, b"context")
    await store.sweep(10_000)
    assert await read_all(store, b"", b"", limit=100) == []
    assert (await store.find(ALL)) == [()] * len(ALL)


async def test_the_last_slot_has_an_end_too(store: RangedStore) -> None:
    last = b"\x12\x20" + b"\xff" * 32
    assert slot_of(last) == SLOTS - 1
    await store.put(value(), [last, sha("x")])
    assert await read_all(store, *bounds(SLOTS - 1), limit=5) == [(last, value())]
    assert await store.drop(*bounds(SLOTS - 1), limit=5) == 1
