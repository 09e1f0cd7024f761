"""The store of an ingest node, over real query nodes."""

from pathlib import Path

import pytest

from argosy.base.errors import Invalid, Unavailable
from argosy.ipni.backends import layout as layouts
from argosy.ipni.backends.layout import value_key_hash
from argosy.ipni.formats.privacy import second_digest
from argosy.ipni.keyspace.layout import slot_of
from tests.contracts.index_store_stage import ALICE, BOB, digests_with_prefix, many, sha, unusual, value
from tests.ipni.keyspace.stage import Fleet, fleet

ALL = [*many("file", 60), *digests_with_prefix(5), *unusual()]


async def stored_hashes(nodes: Fleet, name: str) -> set[bytes]:
    page = await nodes.nodes[name].service._store.entries(b"", b"", limit=10_000)
    return {multihash for multihash, _ in page.entries}


async def test_each_entry_is_stored_at_its_owners_only(tmp_path: Path) -> None:
    async with fleet(tmp_path) as nodes:
        await nodes.create("abc", 2)
        store = await nodes.store()
        await store.put(value(), ALL, {b"cursor": b"1"})
        for name in "abc":
            own = nodes.layout.now.slots_of(name)
            assert await stored_hashes(nodes, name) == {each for each in ALL if slot_of(each) in own}
        assert await store.find([*ALL, sha("other"), ALL[0]]) == [(value(),)] * len(ALL) + [(), (value(),)]
        assert await store.read(b"cursor") == b"1"


async def test_metadata_and_removal_reach_all_multihashes_of_a_context(tmp_path: Path) -> None:
    async with fleet(tmp_path) as nodes:
        await nodes.create("abc", 2)
        store = await nodes.store()
        await store.put(value(ALICE), ALL)
        await store.put(value(BOB), ALL)
        await store.put(value(ALICE, metadata=b"new"), [sha("one more")])
        assert await store.find(ALL) == [(value(ALICE, metadata=b"new"), value(BOB))] * len(ALL)
        await store.remove_context(ALICE, b"context", {b"cursor": b"2"})
        assert await store.find(ALL) == [(value(BOB),)] * len(ALL)
        await store.remove_provider(BOB)
        assert await store.find(ALL) == [()] * len(ALL)
        assert await store.read(b"cursor") == b"2"


async def test_all_the_rest_of_a_store_is_there_too(tmp_path: Path) -> None:
    async with fleet(tmp_path) as nodes:
        await nodes.create("abc", 2)
        store = await nodes.store()
        await store.put(value(), ALL, {b"row/1": b"1"}, is_durable=True)
        await store.write({b"row/2": b"2"}, is_durable=True)
        assert [each async for each in store.scan(b"row/")] == [(b"row/1", b"1"), (b"row/2", b"2")]
        in_order = sorted(ALL, key=layouts.place)
        assert await store.multihashes(ALICE, b"context", start=b"", limit=1000) == in_order
        start = layouts.place(in_order[10])
        assert await store.multihashes(ALICE, b"context", start=start, limit=5) == in_order[10:15]
        assert await store.context_size(ALICE, b"context") == len(ALL)
        assert await store.find_value(value_key_hash(ALICE, b"context")) == value()
        assert await store.find_value(bytes(32)) is None
        digests = [second_digest(each) for each in (*ALL, sha("other"))]
        assert await store.find_second(digests) == [*ALL, None]
        stats = await store.stats()
        assert (stats.entries, stats.values) == (len(ALL), 1)
        assert await store.sweep(10) == 0
        assert await store.find([]) == []


async def test_when_one_of_two_replicas_is_killed_reads_go_on(tmp_path: Path) -> None:
    async with fleet(tmp_path) as nodes:
        await nodes.create("abc", 2)
        store = await nodes.store()
        await store.put(value(), ALL)
        await nodes.kill("b")
        for _ in range(3):
            assert await store.find(ALL) == [(value(),)] * len(ALL)
        assert await store.multihashes(ALICE, b"context", start=b"", limit=1000) == sorted(ALL, key=layouts.place)
        assert await store.find_value(value_key_hash(ALICE, b"context")) == value()


async def test_a_slot_without_any_owner_is_unavailable_and_not_empty(tmp_path: Path) -> None:
    async with fleet(tmp_path) as nodes:
        await nodes.create("abc", 2)
        store = await nodes.store()
        await store.put(value(), ALL)
        for name in "ab":
            await nodes.kill(name)
        orphaned = next(each for each in ALL if set(nodes.layout.owners[slot_of(each)]) == {"a", "b"})
        with pytest.raises(Unavailable, match="no owner of slot"):
            await store.find([orphaned])
        with pytest.raises(Unavailable, match="no owner of slot"):
            await store.multihashes(ALICE, b"context", start=b"", limit=10)
        surviving = next(each for each in ALL if "c" in nodes.layout.owners[slot_of(each)])
        assert await store.find([surviving]) == [(value(),)]


async def test_the_cursor_does_not_move_until_every_owner_has_the_data(tmp_path: Path) -> None:
    async with fleet(tmp_path) as nodes:
        await nodes.create("abc", 2)
        store = await nodes.store()
        await nodes.stop("b")
        with pytest.raises(Unavailable):
            await store.put(value(), ALL, {b"cursor": b"1"})
        with pytest.raises(Unavailable):
            await store.remove_context(ALICE, b"other", {b"cursor": b"2"})
        assert await store.read(b"cursor") is None
        await nodes.start("b")
        await store.put(value(), ALL, {b"cursor": b"1"})
        assert await store.read(b"cursor") == b"1"
        assert (await store.stats()).entries == len(ALL)
        assert await stored_hashes(nodes, "b") == {
            each for each in ALL if slot_of(each) in nodes.layout.now.slots_of("b")
        }


async def test_a_writer_with_an_old_layout_reads_it_again(tmp_path: Path) -> None:
    async with fleet(tmp_path) as nodes:
        await nodes.create("ab", 1)
        store = await nodes.store()
        await store.put(value(), ALL[:20])
        await nodes.change("abc")
        for node in nodes.nodes.values():
            await node.service.reload()
        await store.put(value(), ALL[20:])
        mine = nodes.layout.now.slots_of("c")
        assert await stored_hashes(nodes, "c") == {each for each in ALL[20:] if slot_of(each) in mine}
        assert await store.find(ALL) == [(value(),)] * len(ALL)


async def test_a_writer_with_an_outdated_file_gets_an_error(tmp_path: Path) -> None:
    async with fleet(tmp_path) as nodes:
        await nodes.create("ab", 1)
        old = nodes.path.read_text()
        store = await nodes.store()
        await nodes.change("abc")
        for node in nodes.nodes.values():
            await node.service.reload()
        nodes.path.write_text(old)
        with pytest.raises(Unavailable, match="the layout file here is older"):
            await store.find(ALL)


async def test_an_invalid_multihash_changes_nothing(tmp_path: Path) -> None:
    async with fleet(tmp_path) as nodes:
        await nodes.create("ab", 1)
        store = await nodes.store()
        with pytest.raises(Invalid):
            await store.put(value(), [*ALL, b"\x12\x20short"], {b"cursor": b"1"})
        assert await store.read(b"cursor") is None
        assert (await store.stats()).entries == 0
