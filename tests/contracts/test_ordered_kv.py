"""The contract of OrderedKV, run on every implementation.

To add one, add its name to `STORES`, and to the fixture `open_store` a function that opens an empty store on each
call.
"""

from collections.abc import Awaitable, Callable, Iterator
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.base import kv as kv_module
from argosy.base.errors import Invalid, Unavailable
from argosy.base.kv import KEY_BYTES_MAX, Batch, MemoryKV, OrderedKV
from argosy.jobs.backends.memory import MemoryDisk
from argosy.jobs.backends.shard_store import SlateShardStore
from argosy.jobs.group_commit import GroupCommitStore
from argosy.jobs.settings import ShardStoreSettings
from tests.contracts.ledger_kv import LedgerKV
from tests.servers.s3 import S3

Open = Callable[[], Awaitable[OrderedKV]]

QUICK = ("memory", "disk", "ledger", "slatedb-memory")
SLOW = ("slatedb-file", "slatedb-s3")  # real disks and real sockets: fewer random examples
STORES = (*QUICK, *SLOW)

_names = count()


@pytest.fixture(scope="module", params=STORES)
def open_store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Open:
    match request.param:
        case "memory":
            return open_memory
        case "disk":
            return open_disk
        case "ledger":
            return open_ledger
        case "slatedb-memory":
            return opener("memory://", ShardStoreSettings())
        case "slatedb-file":
            return opener(f"file://{tmp_path_factory.mktemp('shards')}", ShardStoreSettings())
        case _:
            server: S3 = request.getfixturevalue("s3_server")
            return opener(f"{server.url}/contract", server.settings())


@pytest.fixture(scope="module")
def s3_server() -> Iterator[S3]:
    with S3() as server:
        yield server


async def open_memory() -> OrderedKV:
    return MemoryKV()


async def open_disk() -> OrderedKV:
    return await MemoryDisk().open()


async def open_ledger() -> OrderedKV:
    return LedgerKV(GroupCommitStore(await MemoryDisk().open()))


def opener(url: str, chosen: ShardStoreSettings) -> Open:
    opened_stores: list[SlateShardStore] = []

    async def open_shard() -> OrderedKV:
        if not opened_stores:
            opened_stores.append(await SlateShardStore.open(url, chosen))
        return await opened_stores[0].shard(f"shard-{next(_names)}")

    return open_shard


async def fill_store(open_store: Open, *keys: bytes) -> OrderedKV:
    store = await open_store()
    batch = Batch()
    for key in keys:
        batch.put(key, b"value of " + key)
    await store.write(batch)
    return store


async def keys_of(store: OrderedKV, start: bytes = b"", end: bytes | None = None, **how) -> list[bytes]:
    return [key async for key, _ in store.scan(start, end, **how)]


async def test_a_written_value_is_read_back(open_store: Open) -> None:
    store = await fill_store(open_store, b"a")
    assert await store.get(b"a") == b"value of a"
    await store.close()


async def test_a_key_never_written_has_no_value(open_store: Open) -> None:
    store = await fill_store(open_store, b"a")
    assert await store.get(b"b") is None
    await store.close()


async def test_an_empty_value_is_a_value(open_store: Open) -> None:
    store = await open_store()
    await store.write(Batch().put(b"a", b""))
    assert await store.get(b"a") == b""
    assert [pair async for pair in store.scan(b"", None)] == [(b"a", b"")]
    await store.close()


async def test_get_many_returns_values_in_request_order(open_store: Open) -> None:
    store = await fill_store(open_store, b"a", b"b")
    answers = await store.get_many([b"b", b"nothing", b"a", b"b"])
    assert answers == [b"value of b", None, b"value of a", b"value of b"]
    assert await store.get_many([]) == []
    await store.close()


async def test_a_scan_includes_its_start_and_excludes_its_end(open_store: Open) -> None:
    store = await fill_store(open_store, b"d", b"a", b"c", b"b")
    assert await keys_of(store, b"b", b"d") == [b"b", b"c"]
    assert await keys_of(store, b"bb", b"cc") == [b"c"]
    assert await keys_of(store) == [b"a", b"b", b"c", b"d"]
    await store.close()


async def test_a_reverse_scan_returns_the_same_pairs_from_the_end(open_store: Open) -> None:
    store = await fill_store(open_store, b"a", b"b", b"c", b"d")
    assert await keys_of(store, b"b", b"d", reverse=True) == [b"c", b"b"]
    assert await keys_of(store, reverse=True, limit=1) == [b"d"]
    await store.close()


async def test_a_limit_counts_from_the_start_of_the_scan(open_store: Open) -> None:
    store = await fill_store(open_store, b"a", b"b", b"c")
    assert await keys_of(store, limit=2) == [b"a", b"b"]
    assert await keys_of(store, limit=2, reverse=True) == [b"c", b"b"]
    assert await keys_of(store, limit=0) == []
    assert await keys_of(store, limit=99) == [b"a", b"b", b"c"]
    await store.close()


async def test_an_empty_or_inverted_range_has_no_pairs(open_store: Open) -> None:
    store = await fill_store(open_store, b"a", b"b")
    assert await keys_of(store, b"a", b"a") == []
    assert await keys_of(store, b"b", b"a") == []
    assert await keys_of(store, b"b", b"a", reverse=True) == []
    await store.close()


async def test_keys_sort_bytewise(open_store: Open) -> None:
    keys = [b"\x00", b"\x00\x00", b"\x00\xff", b"a", b"a\x00", b"aa", b"b", b"\xff", b"\xff\xff"]
    store = await fill_store(open_store, *reversed(keys))
    assert await keys_of(store) == keys
    await store.close()


async def test_writes_during_a_scan_are_not_visible_to_it(open_store: Open) -> None:
    store = await fill_store(open_store, b"a", b"b", b"c")
    scanned = []
    async for key, value in store.scan(b"", None):
        scanned.append((key, value))
        if key == b"a":
            await store.write(Batch().put(b"bb", b"new").put(b"b", b"changed").delete(b"c"))
    assert scanned == [(key, b"value of " + key) for key in (b"a", b"b", b"c")]
    assert await keys_of(store) == [b"a", b"b", b"bb"]
    await store.close()


async def test_a_scan_can_be_abandoned(open_store: Open) -> None:
    store = await fill_store(open_store, b"a", b"b")
    async for key, _ in store.scan(b"", None):
        assert key == b"a"
        break
    assert await store.get(b"b") == b"value of b"
    await store.close()


async def test_a_batch_is_atomic(open_store: Open) -> None:
    store = await fill_store(open_store, b"a", b"b")
    await store.write(Batch().delete(b"a").put(b"c", b"new").delete(b"was never there"))
    assert await keys_of(store) == [b"b", b"c"]
    await store.close()


async def test_the_last_change_to_a_key_in_a_batch_wins(open_store: Open) -> None:
    store = await open_store()
    await store.write(Batch().put(b"a", b"1").delete(b"a").put(b"b", b"1").put(b"b", b"2").delete(b"c").put(b"c", b"3"))
    assert await store.get_many([b"a", b"b", b"c"]) == [None, b"2", b"3"]
    await store.close()


async def test_an_empty_batch_changes_nothing(open_store: Open) -> None:
    store = await fill_store(open_store, b"a")
    await store.write(Batch())
    assert await keys_of(store) == [b"a"]
    await store.close()


@pytest.mark.parametrize("key", [b"", b"x" * (KEY_BYTES_MAX + 1), "text", bytearray(b"x")])
async def test_an_invalid_key_is_rejected(open_store: Open, key: bytes) -> None:
    store = await open_store()
    with pytest.raises(Invalid):
        await store.get(key)
    with pytest.raises(Invalid):
        await store.get_many([b"fine", key])
    with pytest.raises(Invalid):
        Batch().put(key, b"")
    with pytest.raises(Invalid):
        Batch().delete(key)
    await store.close()


async def test_the_longest_key_is_stored(open_store: Open) -> None:
    longest = b"x" * KEY_BYTES_MAX
    store = await fill_store(open_store, longest)
    assert await keys_of(store) == [longest]
    await store.close()


async def test_a_negative_limit_is_rejected(open_store: Open) -> None:
    store = await fill_store(open_store, b"a")
    with pytest.raises(Invalid, match="negative"):
        await keys_of(store, limit=-1)
    await store.close()


async def test_a_request_for_too_many_keys_is_rejected(open_store: Open, monkeypatch) -> None:
    monkeypatch.setattr(kv_module, "GET_MANY_MAX", 2)
    store = await open_store()
    with pytest.raises(Invalid, match="the limit is 2"):
        await store.get_many([b"a", b"b", b"c"])
    await store.close()


async def test_a_closed_store_is_unavailable_and_may_be_closed_again(open_store: Open) -> None:
    store = await fill_store(open_store, b"a")
    await store.close()
    await store.close()
    for call in (store.get(b"a"), store.get_many([b"a"]), store.write(Batch().put(b"b", b"")), keys_of(store)):
        with pytest.raises(Unavailable):
            await call


# Few keys, so that puts, deletes and scans collide.
some_key = st.lists(st.sampled_from([0, 0x61, 0xFF]), min_size=1, max_size=3).map(bytes)
some_batch = st.lists(st.tuples(some_key, st.none() | st.binary(max_size=3)), max_size=8)
some_scan = st.tuples(st.just(b"") | some_key, st.none() | some_key, st.none() | st.integers(0, 5), st.booleans())


some_steps = st.lists(st.one_of(some_batch, some_scan, some_key), max_size=20)


@pytest.mark.parametrize("open_store", QUICK, indirect=True)
@settings(max_examples=150, deadline=None)
@given(steps=some_steps)
async def test_a_store_behaves_like_a_sorted_dict(open_store: Open, steps: list) -> None:
    assert await matches_a_sorted_dict(await open_store(), steps)


@pytest.mark.parametrize("open_store", SLOW, indirect=True)
@settings(max_examples=5, deadline=None)
@given(steps=some_steps)
async def test_a_slow_store_behaves_like_a_sorted_dict(open_store: Open, steps: list) -> None:
    assert await matches_a_sorted_dict(await open_store(), steps)


async def matches_a_sorted_dict(store: OrderedKV, steps: list) -> bool:
    model: dict[bytes, bytes | None] = {}
    for step in steps:
        match step:
            case list():
                await store.write(batch_of(step))
                model.update(step)
                model = {key: value for key, value in model.items() if value is not None}
            case bytes():
                assert await store.get(step) == model.get(step)
            case (start, end, limit, reverse):
                got = [pair async for pair in store.scan(start, end, limit=limit, reverse=reverse)]
                within = sorted((k, v) for k, v in model.items() if start <= k and (end is None or k < end))
                assert got == (within[::-1] if reverse else within)[:limit]
    is_like = [pair async for pair in store.scan(b"", None)] == sorted(model.items())
    await store.close()
    return is_like


def batch_of(changes: list) -> Batch:
    batch = Batch()
    for key, value in changes:
        if value is None:
            batch.delete(key)
        else:
            batch.put(key, value)
    return batch
