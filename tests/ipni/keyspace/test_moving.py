"""Nodes join and leave under reads and writes: every live multihash is found at every moment."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from argosy.base.errors import Unavailable
from argosy.ipni.keyspace.runtime import check_moved
from argosy.ipni.keyspace.sharded_store import ShardedStore
from argosy.ipni.model import IndexValue
from tests.contracts.index_store_stage import ALICE, many
from tests.ipni.keyspace.stage import Fleet, fleet

CONTEXTS = 6
HASHES = 40


class Load:
    """A writer that puts, changes and removes contexts, a reader that checks, and what must be found."""

    def __init__(self, store: ShardedStore, reader: ShardedStore, seed: int) -> None:
        self._store = store
        self._reader = reader
        self._random = Random(seed)
        self.live: dict[bytes, IndexValue] = {}  # acknowledged, and not being start_move
        self.gone: set[bytes] = set()
        self.finds = 0
        self.writes = 0

    async def fill(self) -> None:
        for number in range(CONTEXTS):
            await self._put(number, 0)

    async def write(self) -> None:
        turn = 0
        while True:
            turn += 1
            number = self._random.randrange(CONTEXTS)
            hashes = [each for each, value in self.live.items() if value.context == _context(number)]
            if hashes and turn % 3 == 0:
                for each in hashes:
                    del self.live[each]
                await self._store.remove_context(ALICE, _context(number), {b"cursor": b"%d" % turn})
                self.gone.update(hashes)
            else:
                await self._put(number, turn)
            self.writes += 1

    async def read(self) -> None:
        while True:
            await self.check(self._random.sample(sorted(self.live), min(20, len(self.live))))
            await asyncio.sleep(0)

    async def check(self, sample: list[bytes]) -> None:
        before = {each: self.live[each] for each in sample}
        gone = self._random.sample(sorted(self.gone), min(5, len(self.gone)))
        found = dict(zip([*sample, *gone], await self._reader.find([*sample, *gone]), strict=True))
        for each, value in before.items():
            if self.live.get(each) == value:  # and did so all the time, because values are unique
                assert found[each] == (value,), (each.hex(), value, found[each])
        for each in gone:
            assert each not in self.gone or found[each] == ()
        self.finds += 1

    async def _put(self, number: int, turn: int) -> None:
        """Adds entries to a context, with new metadata for all."""
        value = IndexValue(ALICE, _context(number), b"%d" % turn)
        old = [each for each, known in self.live.items() if known.context == value.context]
        for each in old:
            del self.live[each]
        hashes = many(f"{number} {turn}", HASHES)
        await self._store.put(value, hashes, {b"cursor": b"%d" % turn})
        self.live.update(dict.fromkeys([*old, *hashes], value))


def _context(number: int) -> bytes:
    return b"context %d" % number


class Running:
    """The load as tasks; an error in one of them is raised at the end at the latest."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._tasks = [asyncio.ensure_future(each) for each in (load.write(), load.read(), load.read())]

    async def go_on(self, count: int = 3) -> None:
        """Waits for so many more writes and finds."""
        writes, finds = self._load.writes + count, self._load.finds + count
        while self._load.writes < writes or self._load.finds < finds:
            for each in self._tasks:
                if each.done():
                    each.result()
            await asyncio.sleep(0)

    async def stop(self) -> None:
        for each in self._tasks:
            each.cancel()
        ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended


async def start_load(nodes: Fleet, names: str, replicas: int) -> Load:
    nodes.attempts_max = 12
    await nodes.create(names, replicas)
    nodes.run(*names)
    load = Load(await nodes.store(), await nodes.store(), seed=5)
    await load.fill()
    return load


async def run_move(nodes: Fleet, running: Running, names: str, *, lost: str = "") -> None:
    """From one settled layout to the next, under load all the time."""
    joining = set(names) - set(nodes.layout.now.nodes)
    await nodes.change(names, lost=lost)
    nodes.run(*joining)
    await running.go_on()
    await nodes.wait_moved()
    await running.go_on()
    await nodes.settle()
    await nodes.wait_cleared()
    await running.go_on()


@pytest.mark.parametrize("kind", ["memory", "rocks"])
@pytest.mark.parametrize("replicas", [1, 2])
async def test_a_node_is_added_and_another_removed_under_load(tmp_path: Path, kind: str, replicas: int) -> None:
    async with fleet(tmp_path, kind) as nodes:
        load = await start_load(nodes, "abc", replicas)
        running = Running(load)
        await run_move(nodes, running, "abcd")
        await run_move(nodes, running, "bcd")
        await running.stop()
        await load.check(sorted(load.live))
        assert nodes.layout.version == 5
        assert await nodes.nodes["d"].service._store.context_size(ALICE, _context(0)) >= 0
        if kind == "memory":
            for node in nodes.nodes.values():
                while await node.service.sweep(10_000):
                    pass
            assert sum((await nodes.entries()).values()) == replicas * await held_by_one(load)


async def held_by_one(load: Load) -> int:
    """How many entries there should be: the live ones, and those of the write in progress at the stop."""
    total = 0
    for number in range(CONTEXTS):
        total += len(await load._reader.multihashes(ALICE, _context(number), start=b"", limit=10_000))
    assert total >= len(load.live)
    return total


async def test_a_node_that_was_killed_is_replaced_from_the_other_replicas(tmp_path: Path) -> None:
    async with fleet(tmp_path) as nodes:
        load = await start_load(nodes, "abc", 2)
        await nodes.kill("b")
        await load.check(sorted(load.live))
        running = Running(load)  # its writes wait until the lost node is named
        await run_move(nodes, running, "acd", lost="b")
        await running.stop()
        await load.check(sorted(load.live))
        await nodes.kill("a")
        await load.check(sorted(load.live))


async def test_a_move_continues_where_it_was_after_a_node_stop(tmp_path: Path) -> None:
    async with fleet(tmp_path, "rocks") as nodes:
        load = await start_load(nodes, "ab", 1)
        await nodes.change("abc")
        joining = nodes.nodes["c"]
        assert await joining.maintenance.step()
        left = len(joining.service.pending_moves())
        assert 0 < left < len(nodes.layout.now.slots_of("c"))
        with pytest.raises(Unavailable, match=f"node c has {left} pending slots"):
            await check_moved(nodes.layout, nodes.connections)
        await nodes.stop("c")
        await load.check(sorted(load.live))
        again = await nodes.start("c")
        assert len(again.service.pending_moves()) == left
        nodes.run("c")
        await nodes.wait_moved()
        await check_moved(nodes.layout, nodes.connections)
        await nodes.settle()
        await nodes.wait_cleared()
        await load.check(sorted(load.live))


async def test_a_layout_settled_too_early_deletes_nothing(tmp_path: Path) -> None:
    async with fleet(tmp_path) as nodes:
        load = await start_load(nodes, "ab", 1)
        before = await nodes.entries()
        await nodes.change("abc")
        for name in "ab":
            await nodes.nodes[name].service.reload()
        await nodes.settle()
        for name in "ab":
            await nodes.nodes[name].service.reload()
            await nodes.nodes[name].maintenance.step()
            assert nodes.nodes[name].service.layout.version == 3
            assert not nodes.nodes[name].service.state.is_cleared
            assert (await nodes.nodes[name].service.status(3)).stats.entries == before[name]
        nodes.attempts_max = 2
        with pytest.raises(Unavailable):
            await (await nodes.store()).find(sorted(load.live))
