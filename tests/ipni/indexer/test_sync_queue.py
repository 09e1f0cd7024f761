"""What keeps syncs apart."""

import asyncio

import pytest

from argosy.base.errors import Unavailable
from argosy.base.keyed import KeyedLock
from argosy.ipni.formats import cid as cids
from argosy.ipni.indexer.sync_queue import FreezeGate, SyncQueue, SyncRequest
from argosy.ipni.model import Peer

HEADS = [cids.of(bytes((number,))) for number in range(4)]


class Runs:
    """Runs that end when the test says so."""

    def __init__(self) -> None:
        self.seen: list[SyncRequest] = []
        self.gates: list[asyncio.Event] = []

    async def __call__(self, wish: SyncRequest) -> None:
        self.seen.append(wish)
        gate = asyncio.Event()
        self.gates.append(gate)
        await gate.wait()


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_while_a_publisher_is_followed_only_its_newest_wish_waits() -> None:
    runs = Runs()
    lanes = SyncQueue(runs, waiting_max=10)
    for head in HEADS:
        lanes.ask(SyncRequest(Peer("p"), head))
    await turns()
    assert [wish.head for wish in runs.seen] == [HEADS[0]]
    runs.gates[0].set()
    await turns()
    assert [wish.head for wish in runs.seen] == [HEADS[0], HEADS[3]]
    runs.gates[1].set()
    await lanes.idle("p")
    assert not lanes.is_busy("p")


async def test_what_an_operator_asked_for_is_not_displaced() -> None:
    runs = Runs()
    lanes = SyncQueue(runs, waiting_max=10)
    lanes.ask(SyncRequest(Peer("p"), HEADS[0]))
    lanes.ask(SyncRequest(Peer("p"), is_manual=True, is_resync=True))
    lanes.ask(SyncRequest(Peer("p"), HEADS[1]))
    await turns()
    runs.gates[0].set()
    await turns()
    assert runs.seen[1].is_resync
    await lanes.close()
    with pytest.raises(Unavailable, match="stopping"):
        lanes.ask(SyncRequest(Peer("p")))


async def test_publishers_do_not_wait_for_one_another_until_there_are_too_many() -> None:
    runs = Runs()
    lanes = SyncQueue(runs, waiting_max=2)
    lanes.ask(SyncRequest(Peer("p")))
    lanes.ask(SyncRequest(Peer("q")))
    with pytest.raises(Unavailable, match="2 publishers are waiting"):
        lanes.ask(SyncRequest(Peer("r")))
    await turns()
    assert len(runs.seen) == 2
    await lanes.stop("p")
    assert not lanes.is_busy("p")
    assert lanes.is_busy("q")
    await lanes.close()


async def test_turns_are_one_at_a_time_by_name_and_leave_nothing_behind() -> None:
    held, order = KeyedLock[str](), []

    async def take(name: str, number: int) -> None:
        async with held.hold(name):
            order.append((name, number))
            await asyncio.sleep(0)
            order.append((name, -number))

    await asyncio.gather(take("a", 1), take("b", 9), take("a", 2), take("a", 3))
    assert [number for name, number in order if name == "a"] == [1, -1, 2, -2, 3, -3]
    assert held._locks == {}


async def test_a_freeze_waits_for_those_inside_and_keeps_others_out() -> None:
    order: list[str] = []

    async def frozen() -> None:
        order.append("frozen")

    gate = FreezeGate(lambda: False, frozen)
    async with gate.passing() as is_open:
        assert is_open
        freezing = asyncio.ensure_future(gate.freeze())
        waiting = asyncio.ensure_future(gate.is_open())
        await turns()
        assert order == []
        order.append("stored")
    await freezing
    assert order == ["stored", "frozen"]
    assert await waiting is False
    async with gate.passing() as is_open:
        assert not is_open


async def test_a_freeze_that_fails_opens_the_gate_again() -> None:
    async def broken() -> None:
        raise Unavailable("no disk")

    gate = FreezeGate(lambda: False, broken)
    with pytest.raises(Unavailable):
        await gate.freeze()
    assert await gate.is_open()


async def test_a_full_disk_shuts_the_gate_before_the_next_batch() -> None:
    readings = iter([False, True])

    async def frozen() -> None:
        pass

    gate = FreezeGate(lambda: next(readings), frozen)
    async with gate.passing() as is_open:
        assert is_open
    async with gate.passing() as is_open:
        assert not is_open
