"""A watch on a real etcd that is killed, compacted, wiped or stopped: nothing lost, nothing twice, no silent gap."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

import pytest

from argosy.base.clock import SystemClock, system_random
from argosy.base.errors import Unavailable
from argosy.base.retry import Backoff
from argosy.ownership.backends.etcd import EtcdStore
from argosy.ownership.backends.etcd_client import channel
from argosy.ownership.events import LeaseChanged, MemberChanged, Snapshot, WatchEvent
from argosy.ownership.model import Member, Session, SessionRole, Space, Unit
from tests.servers.etcd import Etcd

SPACE = Space("shards", is_auctioned=False)
PATIENCE_S = 20.0
MISSED = 1500  # more than the 1000 revisions that etcd sends in one reply while a watcher catches up


class GatedClock(SystemClock):
    """Delays the reconnect of a watcher that lost its stream until the test releases it."""

    def __init__(self) -> None:
        self.is_waiting = asyncio.Event()
        self.gate = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.is_waiting.set()
        await self.gate.wait()


class Listener:
    """Reads a watch in the background."""

    def __init__(self) -> None:
        self.events: list[WatchEvent] = []
        self._arrived = asyncio.Event()

    async def listen(self, store: EtcdStore) -> None:
        async with aclosing(cast(Any, store.watch())) as stream:
            async for event in stream:
                self.events.append(event)
                self._arrived.set()

    async def wait_until(self, is_so: Callable[[list[WatchEvent]], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not is_so(self.events):
                self._arrived.clear()
                await self._arrived.wait()

    def numbers(self) -> list[float]:
        return [event.member.started_at for event in self.events if isinstance(event, MemberChanged)]

    def snapshots(self) -> list[Snapshot]:
        return [event for event in self.events if isinstance(event, Snapshot)]


@pytest.fixture
def etcd() -> Iterator[Etcd]:
    with Etcd() as server:
        yield server


async def opened(etcd: Etcd, clock: SystemClock | None = None, namespace: str = "test") -> EtcdStore:
    clock = clock or SystemClock()
    return await EtcdStore.open(etcd.url, SPACE, clock=clock, random=system_random(), grace_s=0.0, namespace=namespace)


@asynccontextmanager
async def listening(store: EtcdStore) -> AsyncIterator[Listener]:
    listener = Listener()
    task = asyncio.create_task(listener.listen(store))
    try:
        await listener.wait_until(lambda stream: bool(stream))
        yield listener
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def count_from(store: EtcdStore, session: Session, first: int, number: int) -> None:
    """Writes keys with consecutive numbers."""
    for n in range(first, first + number):
        await store.announce(session, Member("n", "a", started_at=float(n)))


async def until_up(store: EtcdStore) -> None:
    """The first call after a crash may find the old connection."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await store.sessions()
                return
            except Unavailable:
                continue


async def test_a_watch_continues_after_a_crash_without_loss_or_repetition(etcd: Etcd) -> None:
    clock = GatedClock()
    watched, writer = await opened(etcd, clock), await opened(etcd)
    session = await writer.open_session(SessionRole.MEMBER, Member("n", "a"), ttl_s=600)
    async with listening(watched) as listener:
        await count_from(writer, session, 1, 100)
        await listener.wait_until(lambda _: len(listener.numbers()) == 100)
        etcd.kill()
        await asyncio.wait_for(clock.is_waiting.wait(), PATIENCE_S)
        etcd.start()
        await until_up(writer)
        await count_from(writer, session, 101, MISSED)
        clock.gate.set()
        await listener.wait_until(lambda _: len(listener.numbers()) >= 100 + MISSED)
        await count_from(writer, session, 101 + MISSED, 10)
        await listener.wait_until(lambda _: listener.numbers()[-1] == 110 + MISSED)
        assert listener.numbers() == [float(n) for n in range(1, 111 + MISSED)]
        assert len(listener.snapshots()) == 1
    await watched.close()
    await writer.close()


async def test_a_transaction_of_many_keys_is_delivered_whole_after_a_crash(etcd: Etcd) -> None:
    clock = GatedClock()
    watched, writer = await opened(etcd, clock), await opened(etcd)
    holder = await writer.open_session(SessionRole.HOLDER, Member("n", "a"), ttl_s=600)
    units = [Unit(f"u{n}") for n in range(300)]
    async with listening(watched) as listener:
        etcd.kill()
        await asyncio.wait_for(clock.is_waiting.wait(), PATIENCE_S)
        etcd.start()
        await until_up(writer)
        leases = [await writer.claim(holder, unit) for unit in units]
        await writer.end_session(holder)  # all leases fall in one revision
        clock.gate.set()
        await listener.wait_until(lambda stream: len(stream) >= 601)
        granted = [event.lease for event in listener.events if isinstance(event, LeaseChanged)]
        assert granted == leases
        assert len(listener.events) == 601
    await watched.close()
    await writer.close()


async def test_a_history_that_was_cut_while_unreachable_is_replaced_by_a_snapshot(etcd: Etcd) -> None:
    clock = GatedClock()
    watched, writer = await opened(etcd, clock), await opened(etcd)
    session = await writer.open_session(SessionRole.MEMBER, Member("n", "a"), ttl_s=600)
    async with listening(watched) as listener:
        etcd.kill()
        await asyncio.wait_for(clock.is_waiting.wait(), PATIENCE_S)
        etcd.start()
        await until_up(writer)
        await count_from(writer, session, 1, 20)
        header = etcd.ctl("get", "x", "-w", "fields")
        revision = next(line.split(":")[1].strip() for line in header.splitlines() if '"Revision"' in line)
        etcd.ctl("compact", revision)
        clock.gate.set()
        await listener.wait_until(lambda _: len(listener.snapshots()) == 2)
        assert listener.snapshots()[1].members == (Member("n", "a", started_at=20.0),)
        await count_from(writer, session, 21, 1)
        await listener.wait_until(lambda _: listener.numbers() == [21.0])
    await watched.close()
    await writer.close()


@pytest.mark.parametrize("later", [0, 60], ids=["younger", "already older"])
async def test_a_store_that_was_wiped_is_noticed_even_when_its_revisions_have_caught_up(etcd: Etcd, later: int) -> None:
    clock = GatedClock()
    watched, writer = await opened(etcd, clock), await opened(etcd)
    await writer.open_session(SessionRole.MEMBER, Member("old", "a"), ttl_s=600)
    async with listening(watched) as listener:
        await listener.wait_until(lambda stream: len(stream) == 2 or bool(listener.snapshots()[0].members))
        etcd.kill()
        await asyncio.wait_for(clock.is_waiting.wait(), PATIENCE_S)
        etcd.wipe()
        fresh = await opened(etcd)
        session = await fresh.open_session(SessionRole.MEMBER, Member("n", "a"), ttl_s=600)
        await count_from(fresh, session, 1, later)
        clock.gate.set()
        await listener.wait_until(lambda _: len(listener.snapshots()) == 2)
        assert listener.snapshots()[1].members == (Member("n", "a", started_at=float(later)),)
    for store in (watched, writer, fresh):
        await store.close()


async def test_a_watch_of_a_store_that_stays_unreachable_ends_with_unavailable(
    etcd: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("argosy.ownership.backends.etcd.WATCH_BACKOFF", Backoff(attempts_max=2))
    store = await opened(etcd)
    stream = cast(Any, store.watch())
    assert isinstance(await anext(stream), Snapshot)
    etcd.kill()
    with pytest.raises(Unavailable, match=f"127.0.0.1:{etcd.port}"):
        await asyncio.wait_for(anext(stream), 60)
    await store.close()


async def test_closing_the_store_ends_its_watch_with_unavailable_not_with_cancellation(etcd: Etcd) -> None:
    store = await opened(etcd)
    stream = cast(Any, store.watch())
    assert isinstance(await anext(stream), Snapshot)
    waiting = asyncio.create_task(anext(stream))
    await store.sessions()  # by now the watch has run once
    await store.close()
    with pytest.raises(Unavailable, match="closed"):
        await asyncio.wait_for(waiting, PATIENCE_S)


async def test_a_watch_on_a_server_that_went_silent_is_noticed(etcd: Etcd, monkeypatch: pytest.MonkeyPatch) -> None:
    faster = {"grpc.keepalive_time_ms": 1000, "grpc.keepalive_timeout_ms": 500}
    options = [(name, faster.get(name, value)) for name, value in channel._OPTIONS]
    monkeypatch.setattr(channel, "_OPTIONS", options)
    clock = GatedClock()
    watched = await opened(etcd, clock)
    async with listening(watched) as listener:
        etcd.pause()
        await asyncio.wait_for(clock.is_waiting.wait(), PATIENCE_S)
        etcd.resume()
        clock.gate.set()
        writer = await opened(etcd)
        session = await writer.open_session(SessionRole.MEMBER, Member("n", "a"), ttl_s=600)
        await count_from(writer, session, 1, 1)
        await listener.wait_until(lambda _: len(listener.numbers()) == 2)
        assert listener.numbers() == [0.0, 1.0]
        await writer.close()
    await watched.close()


async def test_a_snapshot_of_more_than_one_page_is_of_one_moment(etcd: Etcd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("argosy.ownership.backends.etcd_client.calls.PAGE_KEYS", 7)
    store = await opened(etcd, namespace=secrets.token_hex(4))
    holder = await store.open_session(SessionRole.HOLDER, Member("n", "a"), ttl_s=600)
    leases = [await store.claim(holder, Unit(f"u{n:03}")) for n in range(40)]
    async with listening(store) as listener:
        assert listener.snapshots()[0].leases == tuple(leases)
    await store.close()
