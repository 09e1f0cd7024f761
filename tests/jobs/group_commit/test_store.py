"""The group committer: order, groups, durability, failure, backpressure, on a disk controlled by the test."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Self

import pytest

from argosy.base.errors import Fenced, Unavailable
from argosy.base.kv import Batch
from argosy.jobs import group_commit as service
from argosy.jobs.backends.memory import DiskKV, MemoryDisk, no_delay
from argosy.jobs.group_commit import GroupCommitStore
from argosy.jobs.ports import Changes


class GatedKV:
    """A disk on which nothing becomes durable until the test opens a gate; it records each group."""

    def __init__(self, disk: MemoryDisk, inner: DiskKV) -> None:
        self.inner = inner
        self.get_many, self.write = inner.get_many, inner.write
        self.close, self.check_readable = inner.close, inner.check_readable
        self.groups: list[Changes] = []
        self.gates: list[asyncio.Future[None]] = []
        self.written = asyncio.Event()
        self.reading: asyncio.Event | None = None
        disk.delay = self._gate

    @classmethod
    async def on(cls, disk: MemoryDisk) -> Self:
        return cls(disk, await disk.open())

    async def write_pipelined(self, changes: Changes) -> Awaitable[None]:
        durable = await self.inner.write_pipelined(changes)
        self.groups.append(dict(changes))
        self.written.set()
        await asyncio.sleep(0)  # its gate exists when this returns
        return durable

    async def get(self, key: bytes) -> bytes | None:
        value = await self.inner.get(key)
        if self.reading is not None:
            await self.reading.wait()
        return value

    async def scan(
        self, start: bytes, end: bytes | None, *, limit: int | None = None, reverse: bool = False
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        pairs = [pair async for pair in self.inner.scan(start, end, limit=limit, reverse=reverse)]
        if self.reading is not None:
            await self.reading.wait()
        for pair in pairs:
            yield pair

    async def until_written(self, number: int) -> None:
        while len(self.gates) < number:
            self.written.clear()
            await self.written.wait()

    def open_gates(self) -> None:
        for gate in self.gates:
            if not gate.done():
                gate.set_result(None)

    async def _gate(self) -> None:
        self.gates.append(asyncio.get_running_loop().create_future())
        self.written.set()
        await self.gates[-1]


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


@pytest.fixture
async def store(disk: MemoryDisk) -> GatedKV:
    return await GatedKV.on(disk)


@pytest.fixture
async def ledger(store: GatedKV, disk: MemoryDisk) -> AsyncIterator[GroupCommitStore]:
    ledger = GroupCommitStore(store)
    yield ledger
    disk.delay = no_delay
    store.open_gates()
    await ledger.close()


def put(key: bytes, value: bytes = b"1") -> Batch:
    return Batch().put(key, value)


async def let_tasks_run(number: int = 20) -> None:
    """Let other tasks run."""
    for _ in range(number):
        await asyncio.sleep(0)


async def test_a_change_is_acknowledged_only_when_durable(ledger: GroupCommitStore, store: GatedKV) -> None:
    staged = asyncio.ensure_future(ledger.stage(put(b"a")))
    await store.until_written(1)
    await let_tasks_run()
    assert not staged.done()
    store.gates[0].set_result(None)
    await staged
    assert ledger.staged_bytes == 0


async def test_a_lone_change_is_written_at_once(ledger: GroupCommitStore, store: GatedKV) -> None:
    ledger.stage(put(b"a"))
    await let_tasks_run(5)
    assert store.groups == [{b"a": b"1"}]


async def test_changes_during_a_flush_share_the_next(ledger: GroupCommitStore, store: GatedKV) -> None:
    ledger.stage(put(b"a"))
    await store.until_written(1)
    rest = [ledger.stage(put(b"%d" % number)) for number in range(10)]
    await let_tasks_run()
    assert len(store.groups) == 1
    store.gates[0].set_result(None)
    await store.until_written(2)
    assert list(store.groups[1]) == [b"%d" % number for number in range(10)]
    store.gates[1].set_result(None)
    await asyncio.gather(*rest)


async def test_a_large_group_is_written_while_a_flush_still_runs(ledger: GroupCommitStore, store: GatedKV) -> None:
    ledger.stage(put(b"a"))
    await store.until_written(1)
    for number in range(service.GROUP_KEYS):
        ledger.stage(put(b"%d" % number))
    await store.until_written(2)
    assert not store.gates[0].done()
    assert len(store.groups[1]) == service.GROUP_KEYS


async def test_a_group_has_a_maximum_size(ledger: GroupCommitStore, store: GatedKV, monkeypatch) -> None:
    monkeypatch.setattr(service, "GROUP_KEYS_MAX", 4)
    for number in range(9):
        ledger.stage(put(b"%d" % number))
    await store.until_written(2)
    assert [len(group) for group in store.groups] == [4, 4]


async def test_a_batch_is_never_split_between_groups(ledger: GroupCommitStore, store: GatedKV, monkeypatch) -> None:
    monkeypatch.setattr(service, "GROUP_KEYS_MAX", 4)
    for number in range(4):
        ledger.stage(put(b"%d-a" % number).put(b"%d-b" % number, b"1").put(b"%d-c" % number, b"1"))
    await store.until_written(3)
    assert [len(group) for group in store.groups] == [3, 3, 3]


async def test_acknowledgements_come_in_staging_order(ledger: GroupCommitStore, store: GatedKV, monkeypatch) -> None:
    monkeypatch.setattr(service, "GROUP_KEYS_MAX", 1)
    order: list[int] = []
    for number in range(4):
        asyncio.ensure_future(ledger.stage(put(b"%d" % number))).add_done_callback(
            lambda _, number=number: order.append(number)
        )
    await store.until_written(3)
    for gate in reversed(store.gates):
        assert order == []
        gate.set_result(None)
        await let_tasks_run()
    assert order == [0, 1, 2]


async def test_a_staged_change_is_visible_at_once(ledger: GroupCommitStore) -> None:
    ledger.stage(put(b"a").put(b"b", b"1"))
    ledger.stage(Batch().delete(b"b").put(b"c", b"2"))
    assert await ledger.get(b"a") == b"1"
    assert await ledger.get_many([b"b", b"a", b"nothing", b"c"]) == [None, b"1", None, b"2"]
    assert [pair async for pair in ledger.scan(b"", None)] == [(b"a", b"1"), (b"c", b"2")]
    assert [pair async for pair in ledger.scan(b"", None, reverse=True, limit=1)] == [(b"c", b"2")]


async def test_a_read_returns_the_newest_value_even_if_written_meanwhile(
    ledger: GroupCommitStore, store: GatedKV
) -> None:
    store.reading = asyncio.Event()
    reading = asyncio.ensure_future(ledger.get(b"a"))
    await let_tasks_run()
    ledger.stage(put(b"a", b"new"))
    await store.until_written(1)
    store.gates[0].set_result(None)
    await let_tasks_run()
    store.reading.set()
    assert await reading == b"new"


async def stored_digits(ledger: GroupCommitStore, store: GatedKV) -> None:
    batch = Batch()
    for number in range(10):
        batch.put(b"%d" % number, b"")
    stored = ledger.stage(batch)
    await store.until_written(1)
    store.open_gates()
    await stored


async def keys_of(ledger: GroupCommitStore, limit: int) -> list[bytes]:
    return [key async for key, _ in ledger.scan(b"", None, limit=limit)]


async def test_a_scan_limit_holds_despite_staged_deletions(ledger: GroupCommitStore, store: GatedKV) -> None:
    await stored_digits(ledger, store)
    ledger.stage(Batch().delete(b"0").delete(b"1"))
    assert await keys_of(ledger, limit=2) == [b"2", b"3"]


async def test_a_scan_limit_holds_despite_concurrent_deletions(ledger: GroupCommitStore, store: GatedKV) -> None:
    await stored_digits(ledger, store)
    store.reading = asyncio.Event()
    scanning = asyncio.ensure_future(keys_of(ledger, limit=2))
    await let_tasks_run()
    ledger.stage(Batch().delete(b"0").delete(b"1"))
    store.reading.set()
    assert await scanning == [b"2", b"3"]


async def test_a_cancelled_caller_does_not_cancel_its_write(ledger: GroupCommitStore, store: GatedKV) -> None:
    cancelled, stays = asyncio.ensure_future(ledger.stage(put(b"a"))), asyncio.ensure_future(ledger.stage(put(b"b")))
    cancelled.cancel()
    await store.until_written(1)
    store.gates[0].set_result(None)
    await stays
    assert await ledger.get_many([b"a", b"b"]) == [b"1", b"1"]


async def test_a_lost_group_fails_everything_staged_after_it(
    ledger: GroupCommitStore, store: GatedKV, disk: MemoryDisk
) -> None:
    disk.call_error = "the disk is full"
    lost = [asyncio.ensure_future(ledger.stage(put(b"a")))]
    await store.until_written(1)
    lost.append(asyncio.ensure_future(ledger.stage(put(b"b"))))
    store.gates[0].set_result(None)
    outcomes = await asyncio.gather(*lost, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Unavailable, Unavailable]
    assert "the disk is full" in str(outcomes[0])
    for call in (ledger.get(b"a"), ledger.get_many([b"a"]), ledger.wait_capacity(), anext(ledger.scan(b"", None))):
        with pytest.raises(Unavailable, match="the disk is full"):
            await call
    with pytest.raises(Unavailable, match="the disk is full"):
        ledger.stage(put(b"c"))
    assert await (await disk.open()).get_many([b"a", b"b"]) == [None, None]


async def test_a_failure_reaches_callers_of_the_group_being_written(disk: MemoryDisk) -> None:
    """The previous flush fails while the next group is being written."""
    disk.call_error = "no"
    store = await StuckKV.on(disk)
    ledger = GroupCommitStore(store)
    first = asyncio.ensure_future(ledger.stage(put(b"a")))
    await store.until_written(1)
    second = [asyncio.ensure_future(ledger.stage(put(b"%d" % number))) for number in range(service.GROUP_KEYS)]
    await store.is_stuck.wait()
    store.gates[0].set_result(None)
    outcomes = await asyncio.gather(first, *second, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {Unavailable}
    store.may_go_on.set()
    await ledger.close()


class StuckKV(GatedKV):
    """The second group blocks in the store."""

    def __init__(self, disk: MemoryDisk, inner: DiskKV) -> None:
        super().__init__(disk, inner)
        self.is_stuck, self.may_go_on = asyncio.Event(), asyncio.Event()

    async def write_pipelined(self, changes: Changes) -> Awaitable[None]:
        if self.groups:
            self.is_stuck.set()
            await self.may_go_on.wait()
        return await super().write_pipelined(changes)


async def test_another_writer_fences_this_one(ledger: GroupCommitStore, store: GatedKV, disk: MemoryDisk) -> None:
    staged = asyncio.ensure_future(ledger.stage(put(b"a")))
    await store.until_written(1)
    await disk.open()
    store.gates[0].set_result(None)
    with pytest.raises(Fenced):
        await staged
    with pytest.raises(Fenced):
        await ledger.get(b"a")
    assert isinstance(ledger.failure, Fenced)


async def test_a_crash_keeps_durable_writes_only(ledger: GroupCommitStore, store: GatedKV, disk: MemoryDisk) -> None:
    durable = ledger.stage(put(b"a"))
    await store.until_written(1)
    store.gates[0].set_result(None)
    await durable
    lost = asyncio.ensure_future(ledger.stage(put(b"b")))
    await store.until_written(2)
    disk.crash()
    store.gates[1].set_result(None)
    with pytest.raises(Unavailable, match="crashed"):
        await lost
    assert [key async for key, _ in (await disk.open()).scan(b"", None)] == [b"a"]


async def test_wait_capacity_blocks_while_too_much_is_staged(
    ledger: GroupCommitStore, store: GatedKV, monkeypatch
) -> None:
    monkeypatch.setattr(service, "STAGED_CHANGES_MAX", 2)
    await ledger.wait_capacity()
    for number in range(3):
        ledger.stage(put(b"%d" % number))
    waiting = asyncio.ensure_future(ledger.wait_capacity())
    await store.until_written(1)
    await let_tasks_run()
    assert not waiting.done()
    store.gates[0].set_result(None)
    await waiting
    assert ledger.staged_bytes == 0


async def test_staged_bytes_are_bounded(ledger: GroupCommitStore, store: GatedKV, monkeypatch) -> None:
    monkeypatch.setattr(service, "STAGED_BYTES_MAX", 100)
    ledger.stage(put(b"a", b"x" * 100))
    waiting = asyncio.ensure_future(ledger.wait_capacity())
    await store.until_written(1)
    await let_tasks_run()
    assert not waiting.done()
    store.gates[0].set_result(None)
    await waiting


async def test_staging_without_wait_capacity_is_eventually_rejected(ledger: GroupCommitStore, monkeypatch) -> None:
    monkeypatch.setattr(service, "STAGED_CHANGES_MAX", 2)
    for number in range(2 * service.STAGED_HARD_FACTOR + 1):
        ledger.stage(put(b"%d" % number))
    with pytest.raises(Unavailable, match="wait before staging more"):
        ledger.stage(put(b"too much"))
    assert await ledger.get(b"too much") is None, "a rejected batch is not staged"
    assert ledger.failure is None


async def test_reads_wait_for_a_valid_lease(disk: MemoryDisk) -> None:
    stands = True
    ledger = GroupCommitStore(await disk.open(may_serve=lambda: stands))
    await ledger.stage(put(b"a"))
    ledger.stage(put(b"b"))
    stands = False
    for call in (ledger.get(b"a"), ledger.get(b"b"), ledger.get_many([b"b"]), anext(ledger.scan(b"", None))):
        with pytest.raises(Unavailable, match="lease"):
            await call
    stands = True
    assert await ledger.get(b"a") == b"1"
    await ledger.close()


async def test_closing_waits_for_staged_writes(disk: MemoryDisk) -> None:
    ledger = GroupCommitStore(await disk.open())
    staged = [ledger.stage(put(b"%d" % number)) for number in range(5)]
    empty = ledger.stage(Batch())
    await ledger.close()
    await asyncio.gather(*staged, empty)
    with pytest.raises(Unavailable, match="closed"):
        ledger.stage(put(b"a"))
    assert len([key async for key, _ in (await disk.open()).scan(b"", None)]) == 5


async def test_a_store_fault_ends_the_ledger_and_fails_every_waiter(disk: MemoryDisk) -> None:
    class FaultyKV(GatedKV):
        async def write_pipelined(self, changes: Changes) -> Awaitable[None]:
            raise RuntimeError("a bug")

    ledger = GroupCommitStore(await FaultyKV.on(disk))
    with pytest.raises(Unavailable, match="a bug"):
        await ledger.stage(put(b"a"))
    await ledger.close()
