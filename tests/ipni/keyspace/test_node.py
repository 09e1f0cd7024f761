"""What one query node stores, returns and rejects."""

import asyncio
from pathlib import Path

import pytest

from argosy.base.errors import Conflict, Invalid, NotOwner, Unavailable
from argosy.ipni.backends.layout import value_key_hash
from argosy.ipni.backends.memory import RangedMemoryStore
from argosy.ipni.backends.rocks import RocksStore
from argosy.ipni.keyspace.layout import KeyspaceLayout, finalize, revert, slot_of, start_move
from argosy.ipni.keyspace.ports import SlotExport
from argosy.ipni.keyspace.query_node import QueryNodeService, ReadWriteLock
from argosy.ipni.model import IndexValue
from argosy.ipni.ports import RangedStore
from tests.contracts.index_store_stage import ALICE, many, sha, value
from tests.ipni.keyspace.test_plan import side

FIRST = KeyspaceLayout(1, side("ab", 1))
JOINING = start_move(FIRST, side("abc").nodes)
SETTLED = finalize(JOINING)


class FixedLayout:
    """A layout set by the test instead of a file."""

    def __init__(self, layout: KeyspaceLayout) -> None:
        self.layout = layout
        self.newest = layout

    async def reload(self) -> KeyspaceLayout:
        self.layout = self.newest
        return self.layout


async def opened(
    name: str, layout: KeyspaceLayout, store: RangedStore | None = None
) -> tuple[QueryNodeService, FixedLayout]:
    layout_source = FixedLayout(layout)
    node = QueryNodeService(name, store or RangedMemoryStore(), layout_source)
    await node.open()
    return node, layout_source


def of(layout: KeyspaceLayout, name: str, count: int = 10) -> list[bytes]:
    """Multihashes whose slots the node owns."""
    own = layout.now.slots_of(name)
    return [each for each in many("file", 40 * count) if slot_of(each) in own][:count]


async def pull_all(source: QueryNodeService, node: QueryNodeService, *, limit: int = 1000) -> None:
    while left := node.pending_moves():
        slots = [each.slot for each in left if source.name in each.sources]
        if not slots:
            break
        version = node.layout.version
        cursor = b""
        while slots:
            page = await source.export(version, slots, cursor, limit=limit)
            await node.store_page(version, slots, page)
            slots, cursor = slots[page.finished :], page.cursor


async def test_a_node_answers_only_for_its_own_slots() -> None:
    node, _ = await opened("a", FIRST)
    mine, others = of(FIRST, "a"), of(FIRST, "b")
    await node.put(1, value(), mine, is_durable=False)
    assert await node.find(1, mine) == [(value(),)] * 10
    with pytest.raises(NotOwner, match="ask another"):
        await node.find(1, [mine[0], others[0]])


async def test_an_older_layout_is_a_conflict_for_every_request() -> None:
    node, layout_source = await opened("a", FIRST)
    layout_source.newest = JOINING
    await node.reload()
    hashes = of(FIRST, "a", 1)
    for stale in (
        node.put(1, value(), hashes, is_durable=False),
        node.remove(1, ALICE, b"context", is_durable=False),
        node.find(1, hashes),
        node.find_second(1, [bytes(32)]),
        node.find_value(1, bytes(32)),
        node.multihashes(1, ALICE, b"context", start=b"", limit=1),
        node.context_size(1, ALICE, b"context"),
        node.export(1, [0], b"", limit=1),
        node.status(1),
    ):
        with pytest.raises(Conflict, match="layout 1 is out of date, node a has 2"):
            await stale
    assert await node.find(2, hashes) == [()]


async def test_a_newer_layout_causes_a_node_to_reload_its_own() -> None:
    node, layout_source = await opened("a", FIRST)
    with pytest.raises(Unavailable, match="has layout 1 and not yet 2"):
        await node.find(2, of(FIRST, "a", 1))
    layout_source.newest = JOINING
    assert await node.find(2, of(FIRST, "a", 1)) == [()]


async def test_a_node_that_cannot_apply_a_layout_keeps_its_own_and_reports_it() -> None:
    node, layout_source = await opened("c", JOINING)
    layout_source.newest = SETTLED
    with pytest.raises(Unavailable, match=r"cannot follow layout 3: .* not been fetched yet"):
        await node.status(3)
    assert (await node.status(2)).left > 0


async def test_a_new_layout_waits_for_requests_that_are_under_way() -> None:
    gate = ReadWriteLock()
    order: list[str] = []
    is_let_go = asyncio.Event()

    async def request() -> None:
        async with gate.read():
            order.append("in")
            await is_let_go.wait()
            order.append("out")

    async def change() -> None:
        async with gate.write():
            order.append("alone")

    async def late() -> None:
        async with gate.read():
            order.append("late")

    tasks = [asyncio.ensure_future(each()) for each in (request, change, late)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert order == ["in"]
    is_let_go.set()
    await asyncio.gather(*tasks)
    assert order == ["in", "out", "alone", "late"]


@pytest.mark.parametrize("limit", [1, 3, 1000])
async def test_a_joining_node_pulls_its_slots_from_their_owners(limit: int) -> None:
    a, _ = await opened("a", FIRST)
    b, _ = await opened("b", FIRST)
    mine = of(JOINING, "c", 20)
    for node in (a, b):
        own = [each for each in mine if slot_of(each) in FIRST.now.slots_of(node.name)]
        await node.put(1, value(), own, is_durable=False)
        node._membership.newest = JOINING  # type: ignore[attr-defined]
        await node.reload()
    c, layout_source = await opened("c", JOINING)
    for source in (a, b):
        await pull_all(source, c, limit=limit)
    assert c.pending_moves() == []
    assert await c.find(2, mine) == [(value(),)] * 20
    layout_source.newest = SETTLED
    await c.reload()
    assert await c.find(3, mine) == [(value(),)] * 20


async def joining() -> tuple[QueryNodeService, list[int], bytes]:
    """A node that joins, all slots it is to have, and a multihash in one of them."""
    node, _ = await opened("c", JOINING)
    return node, sorted(JOINING.now.slots_of("c")), of(JOINING, "c", 1)[0]


@pytest.mark.parametrize("context", [b"context", None])
async def test_entries_removed_during_a_move_do_not_come_back_with_a_late_page(context: bytes | None) -> None:
    node, slots, multihash = await joining()
    await node.remove(2, ALICE, context, is_durable=True)
    await node.store_page(2, slots, SlotExport([value()], [(multihash, 0)], len(slots), b""))
    assert await node.find(2, [multihash]) == [()]


async def test_entries_put_again_after_their_removal_are_not_mixed_with_the_old() -> None:
    node, slots, old = await joining()
    new = of(JOINING, "c", 2)[1]
    await node.remove(2, ALICE, b"context", is_durable=False)
    await node.put(2, value(metadata=b"new"), [new], is_durable=False)
    await node.store_page(2, slots, SlotExport([value(metadata=b"old")], [(old, 0)], len(slots), b""))
    assert await node.find(2, [old, new]) == [(), (value(metadata=b"new"),)]


async def test_a_late_page_does_not_bring_back_old_metadata() -> None:
    node, slots, multihash = await joining()
    await node.put(2, value(metadata=b"new"), [], is_durable=False)
    await node.store_page(2, slots, SlotExport([value(metadata=b"old")], [(multihash, 0)], len(slots), b""))
    assert await node.find(2, [multihash]) == [(value(metadata=b"new"),)]


async def test_a_slot_is_read_only_once_it_is_complete() -> None:
    node, slots, multihash = await joining()
    await node.put(2, value(), [multihash], is_durable=False)
    with pytest.raises(NotOwner):
        await node.find(2, [multihash])
    at = slots.index(slot_of(multihash))
    await node.store_page(2, slots, SlotExport([], [], at, b"cursor"))
    with pytest.raises(NotOwner):
        await node.find(2, [multihash])
    await node.store_page(2, slots, SlotExport([], [], at + 1, b""))
    assert await node.find(2, [multihash]) == [(value(),)]


async def test_a_restarted_node_continues_with_its_missing_slots(tmp_path: Path) -> None:
    store = await RocksStore.open(tmp_path / "c")
    node, _ = await opened("c", JOINING, store)
    slots = sorted(JOINING.now.slots_of("c"))
    multihash = next(each for each in of(JOINING, "c", 40) if slots.index(slot_of(each)) < len(slots) // 2)
    await node.remove(2, ALICE, b"gone", is_durable=False)
    await node.store_page(2, slots, SlotExport([value()], [(multihash, 0)], len(slots) // 2, b""))
    await node.close()
    again, _ = await opened("c", JOINING, await RocksStore.open(tmp_path / "c"))
    assert {each.slot for each in again.pending_moves()} == set(slots[len(slots) // 2 :])
    assert await again.find(2, [multihash]) == [(value(),)]
    gone = value(ALICE, b"gone")
    await again.store_page(2, slots, SlotExport([gone], [(multihash, 0)], len(slots), b""))
    assert await again.find(2, [multihash]) == [(value(),)]
    await again.close()


async def test_clearing_deletes_slots_of_others_and_only_when_settled() -> None:
    store = RangedMemoryStore()
    node, layout_source = await opened("a", FIRST, store)
    hashes = of(FIRST, "a", 30)
    await node.put(1, value(), hashes, is_durable=False)
    await node.remove(1, ALICE, b"other", is_durable=False)
    layout_source.newest = JOINING
    await node.reload()
    await node.remove(2, ALICE, b"other", is_durable=False)
    assert await node.clear(2, entries_max=1000) == 0
    layout_source.newest = SETTLED
    await node.reload()
    remaining = [each for each in hashes if slot_of(each) in SETTLED.now.slots_of("a")]
    assert 0 < len(remaining) < 30
    dropped = 0
    while not node.state.is_cleared:
        dropped += await node.clear(3, entries_max=2)
    assert dropped == 30 - len(remaining)
    assert await node.find(3, remaining) == [(value(),)] * len(remaining)
    assert (await node.status(3)).stats.entries == len(remaining)
    assert [key async for key, _ in store.scan(b"keyspace/removed/")] == []


async def test_an_abandoned_move_changes_nothing() -> None:
    node, layout_source = await opened("a", FIRST)
    hashes = of(FIRST, "a", 30)
    await node.put(1, value(), hashes, is_durable=False)
    for layout in (JOINING, revert(JOINING)):
        layout_source.newest = layout
        await node.reload()
    await node.clear(3, entries_max=1000)
    assert await node.find(3, hashes) == [(value(),)] * 30
    joiner = RangedMemoryStore()
    await opened("c", JOINING, joiner)
    with pytest.raises(Invalid, match="empty its directory"):
        await opened("c", KeyspaceLayout(4, side("abc", 1), side("ab", 1)), joiner)


async def test_a_node_reports_additional_state() -> None:
    store = RangedMemoryStore(is_double_hashed=True)
    node, _ = await opened("a", FIRST, store)
    hashes = of(FIRST, "a", 3)
    await node.put(1, value(), hashes, is_durable=True)
    found = await node.find_value(1, value_key_hash(ALICE, b"context"))
    assert found == IndexValue(ALICE, b"context", b"\x80\x12")
    assert sorted(await node.multihashes(1, ALICE, b"context", start=b"", limit=9)) == sorted(hashes)
    assert await node.context_size(1, ALICE, b"context") == 3
    status = await node.status(1)
    assert (status.name, status.version, status.left, status.is_cleared) == ("a", 1, 0, True)
    assert status.held == len(FIRST.now.slots_of("a"))
    assert await node.find_second(1, [sha("nothing")[2:]]) == [None]
