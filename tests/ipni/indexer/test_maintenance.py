"""Periodic work of an indexer, on a clock that the test advances."""

import asyncio
from dataclasses import replace

from argosy.base.errors import NotFound
from argosy.base.metrics import Metrics
from argosy.ipni.backends.memory import MemoryIndexStore
from argosy.ipni.indexer import telemetry
from argosy.ipni.indexer.service import IndexerService
from argosy.ipni.model import IndexValue
from argosy.ipni.settings import DAY_S
from tests.ipni.indexer.stage import METADATA, SETTINGS, Chain, ChainSources, SetUsage, follow, has, hashes, key_of


class HandClock:
    """A clock the test advances; sleepers wake when it reaches their deadline."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    def now(self) -> float:
        return self._now

    def wall(self) -> float:
        return 1_700_000_000.0 + self._now

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        self._sleepers.append((self._now + seconds, woken))
        await woken.wait()

    async def pass_(self, seconds: float) -> None:
        self._now += seconds
        due = [each for each in self._sleepers if each[0] <= self._now]
        self._sleepers = [each for each in self._sleepers if each[0] > self._now]
        for _, woken in due:
            woken.set()
        for _ in range(200):
            await asyncio.sleep(0)


class Stage:
    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.clock = HandClock()
        self.usage = SetUsage()
        self.metrics = Metrics()
        self.store = MemoryIndexStore()
        self.announcing: list[str] = []

    async def __aenter__(self) -> IndexerService:
        self._indexer = await IndexerService.open(
            self.store,
            ChainSources(self.chain),
            settings=replace(SETTINGS, tick_s=60.0, sweep_s=30.0),
            usage=self.usage,
            metrics=self.metrics,
            clock=self.clock,
            announcing=self.announcing,
        )
        self._running = asyncio.ensure_future(self._indexer.run())
        await self.clock.pass_(0)
        return self._indexer

    async def __aexit__(self, *_: object) -> None:
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        await self._indexer.close()


async def test_a_silent_publisher_is_polled_and_its_new_head_ingested() -> None:
    chain = Chain()
    chain.add(b"1", hashes("1", 1))
    stage = Stage(chain)
    async with stage as indexer:
        await follow(indexer, chain)
        chain.add(b"2", hashes("2", 1))
        await stage.clock.pass_(DAY_S + 1)
        await indexer.wait_idle(chain.id)
        assert all(await has(indexer, hashes("2", 1)))


async def test_an_interrupted_chain_continues_when_its_publisher_announces_again() -> None:
    chain = Chain()
    chain.add(b"1", hashes("1", 1))
    chain.fails_on.add(chain.add(b"2", hashes("2", 1)))
    stage = Stage(chain)
    async with stage as indexer:
        await follow(indexer, chain)
    chain.fails_on.clear()
    chain.fetched.clear()
    stage.announcing = [chain.id]
    async with stage as indexer:
        await stage.clock.pass_(600)
        assert chain.fetched == [], "the address may be that of an earlier run"
        await follow(indexer, chain)
        assert all(await has(indexer, hashes("2", 1)))


async def test_a_provider_is_hidden_returns_and_is_removed_at_last() -> None:
    chain = Chain()
    chain.add(b"1", hashes("1", 1))
    stage = Stage(chain)
    async with stage as indexer:
        await follow(indexer, chain)
        chain.is_down = True
        await stage.clock.pass_(7 * DAY_S + 1)
        await indexer.wait_idle(chain.id)
        assert await has(indexer, hashes("1", 1)) == [False]
        try:
            indexer.provider(chain.id)
            raise AssertionError("it is hidden")
        except NotFound:
            pass
        assert [each.is_inactive for each in indexer.providers()] == [True]
        chain.is_down = False
        await indexer.sync(chain.id)
        await indexer.wait_idle(chain.id)
        assert await has(indexer, hashes("1", 1)) == [True], "back, although its chain has not moved"
        chain.is_down = True
        await stage.clock.pass_(14 * DAY_S + 1)
        await indexer.wait_idle(chain.id)
        await stage.clock.pass_(60)
        assert indexer.providers() == []
        chain.is_down = False
        await follow(indexer, chain)
        assert await has(indexer, hashes("1", 1)) == [True]


async def test_a_failed_chain_is_tried_again_by_itself() -> None:
    chain = Chain(is_down=True)
    chain.add(b"1", hashes("1", 1))
    stage = Stage(chain)
    async with stage as indexer:
        await follow(indexer, chain)
        chain.is_down = False
        await stage.clock.pass_(60)
        await indexer.wait_idle(chain.id)
        assert all(await has(indexer, hashes("1", 1)))


async def test_a_disk_that_fills_freezes_the_indexer_without_any_ingest() -> None:
    stage = Stage(Chain())
    async with stage as indexer:
        assert not indexer.status().is_frozen
        stage.usage.value = 90.0
        await stage.clock.pass_(60)
        assert indexer.status().is_frozen
        assert stage.metrics.value(telemetry.USAGE_PERCENT) == 90.0
        assert stage.metrics.value(telemetry.IS_FROZEN) == 1


async def test_removed_entries_are_swept_and_orphaned_contexts_are_dropped() -> None:
    chain = Chain()
    chain.add(b"1", hashes("1", 5))
    chain.add(b"2", hashes("2", 5))
    stage = Stage(chain)
    async with stage as indexer:
        await follow(indexer, chain)
        await stage.store.put(IndexValue(key_of("nobody").peer_id, b"x", METADATA), hashes("nobody", 2))
        assert await has(indexer, hashes("nobody", 1)) == [False]
        chain.remove(b"1")
        await follow(indexer, chain)
        await stage.clock.pass_(30)
        assert (await stage.store.find(hashes("nobody", 1))) == [()]
        assert (await indexer.stats()).entries == 5
        assert stage.metrics.value(telemetry.SWEPT) == 7
