"""The contract of IndexStore, run on every implementation."""

from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

import pytest

from argosy.base.errors import Invalid, Unavailable
from argosy.ipni.backends import rocks, rocks_reader, rocks_sweeper
from argosy.ipni.backends.memory import MemoryIndexStore
from argosy.ipni.backends.rocks import RocksStore
from argosy.ipni.formats.peer import peer_bytes
from argosy.ipni.formats.privacy import second_digest
from argosy.ipni.model import IndexValue
from argosy.ipni.ports import IndexStore
from tests.contracts.index_store_stage import ALICE, BOB, digests_with_prefix, many, sha, unusual, value

SWEEP_ALL = 1_000_000


@pytest.fixture(params=["memory", "rocks", "rocks-in-small-pieces"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[IndexStore]:
    """Each also stores second hashes."""
    if request.param == "rocks-in-small-pieces":
        monkeypatch.setattr(rocks, "PIECE", 3)
        monkeypatch.setattr(rocks, "READS_PER_TURN", 2)
        monkeypatch.setattr(rocks_reader, "PAGE_MAX", 2)
        monkeypatch.setattr(rocks_sweeper, "ENTRIES_PER_PIECE_MAX", 2)
        monkeypatch.setattr(rocks_sweeper, "CONTEXTS_PER_PIECE_MAX", 1)
    new_store: IndexStore
    if request.param == "memory":
        new_store = MemoryIndexStore(is_double_hashed=True)
    else:
        new_store = await RocksStore.open(tmp_path / "store", is_double_hashed=True)
    yield new_store
    await new_store.close()


async def find_one(store: IndexStore, multihash: bytes) -> tuple[IndexValue, ...]:
    (values,) = await store.find([multihash])
    return values


async def test_a_put_value_is_found(store: IndexStore) -> None:
    hashes = many("file", 20)
    await store.put(value(), hashes)
    assert await store.find([*hashes, sha("another")]) == [(value(),)] * 20 + [()]


async def test_a_multihash_has_all_its_values_oldest_context_first(store: IndexStore) -> None:
    values = [value(ALICE, b"1"), value(BOB, b"1"), value(ALICE, b"2", b"other")]
    for each in values:
        await store.put(each, [sha("other"), sha("shared")])
    await store.put(values[0], [sha("late")])
    await store.put(values[1], [sha("late")])
    await store.put(values[0], [sha("shared")])
    assert await store.find([sha("shared"), sha("late")]) == [tuple(values), tuple(values[:2])]


async def test_every_kind_of_multihash_is_distinct(store: IndexStore) -> None:
    hashes = unusual()
    for at, each in enumerate(hashes):
        await store.put(value(context=b"%d" % at), [each])
    assert await store.find(hashes) == [(value(context=b"%d" % at),) for at in range(len(hashes))]


async def test_kinds_may_be_mixed_in_one_put(store: IndexStore) -> None:
    hashes = [*unusual(), *many("file", 5)]
    await store.put(value(), hashes)
    assert await store.find(hashes) == [(value(),)] * len(hashes)


async def test_a_repeated_put_changes_the_metadata_of_every_entry(store: IndexStore) -> None:
    await store.put(value(), [sha("1"), sha("2")])
    assert await find_one(store, sha("1")) == (value(),)
    await store.put(value(metadata=b"new"))
    assert await store.find([sha("1"), sha("2")]) == [(value(metadata=b"new"),)] * 2


async def test_a_repeated_put_is_idempotent(store: IndexStore) -> None:
    for _ in range(2):
        await store.put(value(), [sha("1"), sha("1"), sha("2")])
    assert await find_one(store, sha("1")) == (value(),)
    await store.remove_context(ALICE, b"context")
    await store.sweep(SWEEP_ALL)
    assert await find_one(store, sha("1")) == ()


async def test_a_removed_context_is_not_found_even_before_a_sweep(store: IndexStore) -> None:
    await store.put(value(context=b"1"), [sha("file")])
    await store.put(value(context=b"2"), [sha("file")])
    await store.remove_context(ALICE, b"1")
    assert await find_one(store, sha("file")) == (value(context=b"2"),)
    assert await store.find_value(key_hash(ALICE, b"1")) is None
    assert await store.multihashes(ALICE, b"1", start=b"", limit=10) == []


async def test_a_context_put_again_has_only_its_new_entries(store: IndexStore) -> None:
    await store.put(value(), [sha("old"), sha("both")])
    await store.remove_context(ALICE, b"context")
    await store.put(value(), [sha("both")])
    assert await store.find([sha("old"), sha("both")]) == [(), (value(),)]
    await store.sweep(SWEEP_ALL)
    assert await store.find([sha("old"), sha("both")]) == [(), (value(),)]
    assert await store.context_size(ALICE, b"context") == 1


async def test_removing_a_provider_leaves_the_others(store: IndexStore) -> None:
    for at in range(5):
        await store.put(value(ALICE, b"%d" % at), [sha("file")])
    await store.put(value(BOB), [sha("file")])
    await store.remove_provider(ALICE)
    assert await find_one(store, sha("file")) == (value(BOB),)
    assert await store.find_value(key_hash(ALICE, b"0")) is None
    assert await store.context_size(ALICE, b"0") == 0


async def test_a_provider_put_again_keeps_its_new_entries(store: IndexStore) -> None:
    for at in range(5):
        await store.put(value(ALICE, b"%d" % at), [sha("file"), sha(f"{at}")])
    await store.remove_provider(ALICE)
    await store.put(value(ALICE, b"3"), [sha("file")])
    await store.put(value(ALICE, b"new"), [sha("file")])
    expected = (value(ALICE, b"3"), value(ALICE, b"new"))
    assert await find_one(store, sha("file")) == expected
    assert await store.sweep(SWEEP_ALL) == 10
    assert await find_one(store, sha("file")) == expected
    assert await store.find_value(key_hash(ALICE, b"3")) == value(ALICE, b"3")
    await store.remove_provider(ALICE)
    assert await find_one(store, sha("file")) == ()
    assert await store.sweep(SWEEP_ALL) == 2


async def test_removing_a_missing_context_only_writes_the_rows(store: IndexStore) -> None:
    await store.remove_context(ALICE, b"never", {b"cursor": b"1"})
    await store.remove_provider(ALICE, {b"cursor 2": b"2"})
    assert await store.read(b"cursor") == b"1"
    assert await store.read(b"cursor 2") == b"2"
    assert await store.sweep(SWEEP_ALL) == 0


async def test_a_sweep_frees_at_most_its_limit_and_continues(store: IndexStore) -> None:
    await store.put(value(), many("file", 25))
    await store.remove_context(ALICE, b"context")
    assert [await store.sweep(10) for _ in range(4)] == [10, 10, 5, 0]
    assert (await store.stats()).values == 0


async def test_a_sweep_finds_its_entries_among_common_prefixes(store: IndexStore) -> None:
    hashes = digests_with_prefix(9)
    await store.put(value(ALICE), hashes)
    await store.put(value(BOB), hashes)
    await store.remove_context(ALICE, b"context")
    assert await store.sweep(SWEEP_ALL) == 9
    assert await store.find(hashes) == [(value(BOB),)] * 9
    assert await store.find_second([second_digest(hashes[4])]) == [hashes[4]]
    await store.remove_context(BOB, b"context")
    assert await store.sweep(SWEEP_ALL) == 9
    assert await store.find_second([second_digest(each) for each in hashes]) == [None] * 9


async def test_a_second_hash_resolves_to_its_multihash(store: IndexStore) -> None:
    hashes = [*unusual(), *many("file", 5), *digests_with_prefix(7)]
    await store.put(value(), hashes)
    second_hashes = [second_digest(each) for each in hashes]
    assert await store.find_second([*second_hashes, second_digest(sha("another"))]) == [*hashes, None]


async def test_a_value_is_found_by_the_hash_of_its_key(store: IndexStore) -> None:
    await store.put(value(metadata=b"meta"))
    assert await store.find_value(key_hash(ALICE, b"context")) == value(metadata=b"meta")
    assert await store.find_value(key_hash(BOB, b"context")) is None


def key_hash(provider: str, context: bytes) -> bytes:
    return sha256(peer_bytes(provider) + context).digest()


async def test_the_multihashes_of_a_context_are_listed_in_digest_order(store: IndexStore) -> None:
    hashes = many("file", 30)
    await store.put(value(), hashes[:20])
    await store.put(value(), hashes[10:])
    await store.put(value(context=b"another"), many("another", 5))
    ordered = sorted(hashes)
    assert await store.multihashes(ALICE, b"context", start=b"", limit=100) == ordered
    assert await store.multihashes(ALICE, b"context", start=ordered[7][2:], limit=5) == ordered[7:12]
    assert await store.multihashes(ALICE, b"context", start=ordered[7][2:4], limit=5) == ordered[7:12]
    assert await store.multihashes(ALICE, b"context", start=b"\xff" * 32, limit=5) == []


async def test_multihashes_with_a_common_prefix_are_listed_once_and_in_order(store: IndexStore) -> None:
    hashes = digests_with_prefix(9)
    for each in (ALICE, BOB):
        await store.put(value(each), hashes)
    assert await store.multihashes(BOB, b"context", start=b"", limit=100) == hashes
    assert await store.multihashes(BOB, b"context", start=hashes[4][2:], limit=3) == hashes[4:7]


async def test_a_context_knows_its_size(store: IndexStore) -> None:
    assert await store.context_size(ALICE, b"context") == 0
    await store.put(value(), many("1", 7))
    await store.put(value(), many("2", 5))
    assert await store.context_size(ALICE, b"context") == 12


async def test_rows_are_written_and_removed_with_the_data(store: IndexStore) -> None:
    await store.put(value(), many("file", 9), {b"a": b"1", b"b": b"2"}, is_durable=True)
    await store.remove_context(ALICE, b"context", {b"b": None})
    await store.write({b"c": b"", b"never": None}, is_durable=True)
    assert [await store.read(key) for key in (b"a", b"b", b"c", b"never")] == [b"1", None, b"", None]


async def test_a_scan_returns_a_snapshot_of_its_prefix_in_order(store: IndexStore) -> None:
    await store.write({b"a/%d" % each: b"%d" % each for each in range(6)} | {b"a": b"", b"b/1": b"", b"\xff\xff": b""})
    scanned = []
    async for key, row in store.scan(b"a/"):
        scanned.append((key, row))
        await store.write({b"a/5": b"changed", b"a/9": b"new"})
    assert scanned == [(b"a/%d" % each, b"%d" % each) for each in range(6)]
    assert [key async for key, _ in store.scan(b"\xff")] == [b"\xff\xff"]
    assert len([key async for key, _ in store.scan(b"")]) == 10


async def test_a_put_with_an_invalid_multihash_is_rejected_whole(store: IndexStore) -> None:
    with pytest.raises(Invalid):
        await store.put(value(), [*many("file", 9), b"\x12\x20short"], {b"cursor": b"1"})
    assert await find_one(store, sha("file-1")) == ()
    assert await store.read(b"cursor") is None
    with pytest.raises(Invalid):
        await store.find([b"\x12\x20short"])


@pytest.mark.parametrize("wrong", [value(context=b"c" * 65), value(metadata=b"m" * 1025), value("nobody")])
async def test_a_value_out_of_bounds_is_rejected(store: IndexStore, wrong: IndexValue) -> None:
    with pytest.raises(Invalid):
        await store.put(wrong, [sha("file")])
    assert await find_one(store, sha("file")) == ()


async def test_stats_count_the_stored_entries(store: IndexStore) -> None:
    for at in range(3):
        await store.put(value(context=b"%d" % at), many(f"file {at}", 10))
    stats = await store.stats()
    assert (stats.entries, stats.values) == (30, 3)


async def test_a_closed_store_is_unavailable(store: IndexStore) -> None:
    await store.put(value(), [sha("file")])
    await store.close()
    await store.close()
    with pytest.raises(Unavailable, match="closed"):
        await store.find([sha("file")])
    with pytest.raises(Unavailable, match="closed"):
        await store.put(value(), [sha("file")])
    with pytest.raises(Unavailable, match="closed"):
        await store.sweep(1)
