"""Locks and queues that serialise syncs."""

import asyncio

import pytest

from argosy.base.errors import Unavailable
from argosy.base.tasks import KeyedLock
from argosy.ipni.formats import cid as cids
from argosy.ipni.indexer.freeze import FreezeGate
from argosy.ipni.indexer.sync_service import SyncQueue, SyncRequest
from argosy.ipni.model import Peer

HEADS = [cids.of(bytes((number,))) for number in range(4)]


class Runs:
    """Syncs that the test ends."""

    def __init__(self) -> None:
        self.seen: list[SyncRequest] = []
        self.gates: list[asyncio.Event] = []

    async def __call__(self, request: SyncRequest) -> None:
        self.seen.append(request)
        gate = asyncio.Event()
        self.gates.append(gate)
        await gate.wait()


async def provider_locks(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_while_a_publisher_is_synced_only_its_newest_request_waits() -> None:
    runs = Runs()
    queue = SyncQueue(runs, waiting_max=10)
    for head in HEADS:
        queue.submit(SyncRequest(Peer("p"), head))
    await provider_locks()
    assert [request.head for request in runs.seen] == [HEADS[0]]
    runs.gates[0].set()
    await provider_locks()
    assert [request.head for request in runs.seen] == [HEADS[0], HEADS[3]]
    runs.gates[1].set()
    await queue.wait_idle("p")
    assert not queue.is_busy("p")


async def test_a_sync_requested_by_an_operator_is_not_displaced() -> None:
    runs = Runs()
    queue = SyncQueue(runs, waiting_max=10)
    queue.submit(SyncRequest(Peer("p"), HEADS[0]))
    queue.submit(SyncRequest(Peer("p"), is_manual=True, is_resync=True))
    queue.submit(SyncRequest(Peer("p"), HEADS[1]))
    await provider_locks()
    runs.gates[0].set()
    await provider_locks()
    assert runs.seen[1].is_resync
    await queue.close()
    with pytest.raises(Unavailable, match="stopping"):
        queue.submit(SyncRequest(Peer("p")))


async def test_publishers_do_not_wait_for_one_another_until_there_are_too_many() -> None:
    runs = Runs()
    queue = SyncQueue(runs, waiting_max=2)
    queue.submit(SyncRequest(Peer("p")))
    queue.submit(SyncRequest(Peer("q")))
    with pytest.raises(Unavailable, match="2 publishers are waiting"):
        queue.submit(SyncRequest(Peer("r")))
    await provider_locks()
    assert len(runs.seen) == 2
    await queue.stop("p")
    assert not queue.is_busy("p")
    assert queue.is_busy("q")
    await queue.close()


async def test_locks_are_exclusive_by_name_and_are_released() -> None:
    held, request = KeyedLock[str](), []

    async def take(name: str, number: int) -> None:
        async with held.hold(name):
            request.append((name, number))
            await asyncio.sleep(0)
            request.append((name, -number))

    await asyncio.gather(take("a", 1), take("b", 9), take("a", 2), take("a", 3))
    assert [number for name, number in request if name == "a"] == [1, -1, 2, -2, 3, -3]
    assert held._locks == {}


async def test_a_freeze_waits_for_running_syncs_and_blocks_new_ones() -> None:
    request: list[str] = []

    async def frozen() -> None:
        request.append("frozen")

    gate = FreezeGate(lambda: False, frozen)
    async with gate.admit() as is_open:
        assert is_open
        freezing = asyncio.ensure_future(gate.freeze())
        waiting = asyncio.ensure_future(gate.is_open())
        await provider_locks()
        assert request == []
        request.append("stored")
    await freezing
    assert request == ["stored", "frozen"]
    assert await waiting is False
    async with gate.admit() as is_open:
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
    async with gate.admit() as is_open:
        assert is_open
    async with gate.admit() as is_open:
        assert not is_open
