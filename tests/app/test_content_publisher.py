"""Indexed repositories are advertised by content and dropped ones withdrawn, across interruptions."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from argosy.app import content_publisher
from argosy.app.content_publisher import ContentPublisher
from argosy.base.clock import SystemClock, seeded_random
from argosy.base.errors import Unavailable
from argosy.base.metrics import Metrics
from argosy.ipni.formats import metadata
from argosy.ipni.formats.metadata import Label, decode_label
from argosy.ipni.formats.multihash import SHA2_256, wrap
from argosy.ipni.model import CONTEXT_BYTES_MAX
from argosy.ipni.publish.backends.memory import MemoryChain
from argosy.ipni.publish.backends.sqlite import SqliteChain
from argosy.ipni.publish.ports import ChainLink, ChainStore
from argosy.ipni.publish.publisher import Publisher
from argosy.search.backends.memory import one_branch
from argosy.search.content_digests import DigestMatch
from argosy.search.index.build import build
from argosy.search.index.index import Index
from argosy.search.model import Branch
from argosy.search.skip_policy import Policy
from tests.ipni.publish.chains import KEY, chain, read_context_entries, reading

PATIENCE_S = 30.0
AT = ["/ip4/127.0.0.1/tcp/6070/http"]


class Settling(SystemClock):
    """Waits for the notification, not for the time, with a long interval."""

    def __init__(self) -> None:
        self.settled = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        await (self.settled.wait() if seconds > 100 else super().sleep(0.0))


class Node:
    """The interface of a search node to the content index."""

    def __init__(self, publisher: Publisher, adverts: ContentPublisher, clock: Settling, metrics: Metrics) -> None:
        self.metrics = metrics
        self.publisher = publisher
        self.adverts = adverts
        self.clock = clock

    async def until_offered(self, *contexts: str) -> None:
        """By repository names and commit prefixes."""
        async with asyncio.timeout(PATIENCE_S):
            while await self.offered() != sorted(contexts):
                await SystemClock().sleep(0.005)

    async def offered(self) -> list[str]:
        return [
            published.context.decode(errors="replace").partition(".")[0]
            for published in await self.publisher.list_contexts()
        ]

    async def held(self) -> set[bytes]:
        async with reading(self.publisher) as source:
            return set().union(*(await read_context_entries(source)).values())


@asynccontextmanager
async def node(store: ChainStore, at: list[str] = AT) -> AsyncIterator[Node]:
    publisher = await Publisher.open(KEY, store, addresses=at)
    clock = Settling()
    metrics = Metrics()
    adverts = ContentPublisher(publisher, at, clock=clock, random=seeded_random(1), metrics=metrics)
    running = asyncio.ensure_future(adverts.run())
    try:
        yield Node(publisher, adverts, clock, metrics)
        assert not running.done(), running.exception()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def index(name: str, commit: str = "", previous: Index | None = None, **files: str) -> Index:
    source = one_branch(name, {f"{path}.py": text.encode() for path, text in files.items()})
    source._repository = msgspec.structs.replace(source.repository, branches=(Branch("main", commit),))
    return build(source, Policy(), previous=previous)


def hashes(*contents: str) -> set[bytes]:
    return {wrap(SHA2_256, sha256(content.encode()).digest()) for content in contents}


async def test_an_indexed_repository_is_advertised_with_its_name_and_commit() -> None:
    async with node(MemoryChain()) as here:
        here.adverts.on_indexed(index("fleet/argo", "0123456789abcdef", a="one", b="two", c="one"))
        await here.until_offered("fleet/argo@0123456789a")
        assert await here.held() == hashes("one", "two")
        [published] = await here.publisher.list_contexts()
        assert decode_label(published.metadata) == Label("fleet/argo", "0123456789abcdef")
        assert metadata.protocols(published.metadata)[0][0] == "transport-ipfs-gateway-http"
        async with reading(here.publisher) as source:
            assert [list(advert.addresses) for advert in await chain(source)] == [AT]
        assert here.adverts.find(sha256(b"two").digest()) == DigestMatch("fleet/argo", "b.py", b"two")


async def test_a_new_commit_takes_the_place_of_the_old_one_in_this_order() -> None:
    async with node(MemoryChain()) as here:
        old = index("r", "aaaa", a="one", b="two")
        here.adverts.on_indexed(old)
        await here.until_offered("r@aaaa")
        here.adverts.on_indexed(index("r", "bbbb", old, a="one", b="three"))
        await here.until_offered("r@bbbb")
        assert await here.held() == hashes("one", "three")
        async with reading(here.publisher) as source:
            removals_seen = [(advert.context.decode()[:6], advert.is_removal) for advert in await chain(source)]
        assert removals_seen == [("r@aaaa", False), ("r@bbbb", False), ("r@aaaa", True)]
        assert here.adverts.find(sha256(b"two").digest()) is None


async def test_a_dropped_repository_is_withdrawn_and_the_others_stay() -> None:
    async with node(MemoryChain()) as here:
        here.adverts.on_indexed(index("r", "aaaa", a="one"))
        here.adverts.on_indexed(index("r2", "cccc", a="two"))
        await here.until_offered("r@aaaa", "r2@cccc")
        here.adverts.on_dropped("r")
        assert here.adverts.find(sha256(b"one").digest()) is None, "at once"
        await here.until_offered("r2@cccc")
        assert await here.held() == hashes("two")
        here.adverts.on_dropped("never held")
        here.adverts.on_indexed(index("r", "aaaa", a="one"))
        await here.until_offered("r2@cccc", "r@aaaa")
        assert await here.held() == hashes("one", "two")


async def test_indexing_unchanged_content_again_publishes_no_advertisement() -> None:
    async with node(MemoryChain()) as here:
        here.adverts.on_indexed(index("r", "aaaa", a="one"))
        await here.until_offered("r@aaaa")
        head = here.publisher.head
        here.adverts.on_indexed(index("r", "aaaa", a="one"))
        here.adverts.on_indexed(index("s", "bbbb", a="one"))
        await here.until_offered("r@aaaa", "s@bbbb")
        async with reading(here.publisher) as source:
            adverts = await chain(source)
        assert [advert.context[:6] for advert in adverts] == [b"r@aaaa", b"s@bbbb"]
        assert adverts[1].previous == head


async def test_a_folder_that_was_touched_is_not_advertised_again() -> None:
    async with node(MemoryChain()) as here:
        here.adverts.on_indexed(index("folder", "files-0123", a="one"))
        async with asyncio.timeout(PATIENCE_S):
            head = await here.publisher.wait_new_head(None)
        here.adverts.on_indexed(index("folder", "files-4567", a="one"))
        here.adverts.on_indexed(index("s", "bbbb", a="two"))
        async with asyncio.timeout(PATIENCE_S):
            await here.publisher.wait_new_head(head)
        async with reading(here.publisher) as source:
            assert [advert.context[:6] for advert in await chain(source)] == [b"folder", b"s@bbbb"]
        [published] = await here.publisher.list_contexts(b"folder@")
        assert decode_label(published.metadata) == Label("folder")


async def test_a_repository_that_became_empty_is_withdrawn() -> None:
    async with node(MemoryChain()) as here:
        here.adverts.on_indexed(index("r", "aaaa", a="one"))
        await here.until_offered("r@aaaa")
        here.adverts.on_indexed(index("r", "bbbb"))
        await here.until_offered()
        assert await here.held() == set()


@pytest.mark.parametrize("name", ["r" * 300, "host/ä@b", "\udcff"])
async def test_any_name_fits_into_a_context(name: str) -> None:
    async with node(MemoryChain()) as here:
        here.adverts.on_indexed(index(name, "", a="one"))
        async with asyncio.timeout(PATIENCE_S):
            await here.publisher.wait_new_head(None)
        [published] = await here.publisher.list_contexts()
        assert len(published.context) <= CONTEXT_BYTES_MAX
        here.adverts.on_dropped(name)
        await here.until_offered()


async def test_after_a_restart_the_chain_continues_and_repositories_no_longer_held_are_withdrawn(
    tmp_path: Path,
) -> None:
    store = await SqliteChain.open(tmp_path / "chain")
    async with node(store) as here:
        for name in ("kept", "lost", "changed"):
            here.adverts.on_indexed(index(name, "aaaa", a=name))
        await here.until_offered("changed@aaaa", "kept@aaaa", "lost@aaaa")
        head = here.publisher.head
    await store.close()

    store = await SqliteChain.open(tmp_path / "chain")
    async with node(store) as here:
        assert here.publisher.head == head
        here.adverts.on_indexed(index("kept", "aaaa", a="kept"))
        here.adverts.on_indexed(index("changed", "bbbb", a="other"))
        await here.until_offered("changed@bbbb", "kept@aaaa", "lost@aaaa")
        here.clock.settled.set()
        await here.until_offered("changed@bbbb", "kept@aaaa")
        assert await here.held() == hashes("kept", "other")
    await store.close()


async def test_a_node_with_a_new_address_announces_it() -> None:
    store = MemoryChain()
    async with node(store) as here:
        here.adverts.on_indexed(index("r", "aaaa", a="one"))
        await here.until_offered("r@aaaa")
        head = here.publisher.head
    there = ["/ip4/127.0.0.1/tcp/7070/http"]
    async with node(store, there) as here:
        async with asyncio.timeout(PATIENCE_S):
            await here.publisher.wait_new_head(head)
        async with reading(here.publisher) as source:
            assert [list(advert.addresses) for advert in await chain(source)] == [AT, there]
        assert await here.held() == hashes("one")


class FullDisk(MemoryChain):
    """Rejects writes until there is room."""

    refusals = 3

    async def append(self, links: "list[ChainLink] | tuple[ChainLink, ...]") -> None:  # type: ignore[override]
        if self.refusals:
            self.refusals -= 1
            raise Unavailable("the disk is full")
        await super().append(links)


async def test_a_chain_that_cannot_grow_is_tried_again_until_it_can() -> None:
    store = FullDisk()
    async with node(store) as here:
        here.adverts.on_indexed(index("r", "aaaa", a="one"))
        await here.until_offered("r@aaaa")
        assert store.refusals == 0
        assert await here.held() == hashes("one")
        assert here.metrics.value(content_publisher.ADS, outcome="failed") == FullDisk.refusals


async def test_advertisements_and_withdrawals_are_counted() -> None:
    async with node(MemoryChain()) as here:
        here.adverts.on_indexed(index("r", "aaaa", a="one"))
        here.adverts.on_indexed(index("s", "bbbb", a="two"))
        await here.until_offered("r@aaaa", "s@bbbb")
        here.adverts.on_dropped("s")
        await here.until_offered("r@aaaa")
        async with asyncio.timeout(PATIENCE_S):
            while here.metrics.value(content_publisher.ADS, outcome="removed") != 1:
                await SystemClock().sleep(0.005)
        assert here.metrics.value(content_publisher.ADS, outcome="published") == 2
        assert here.metrics.value(content_publisher.ADVERTISED) == 1
        assert here.metrics.value(content_publisher.ADS_WAITING) == 0


async def test_only_the_newest_update_of_a_repository_waits() -> None:
    async with node(MemoryChain()) as here:
        for commit in ("aaaa", "bbbb", "cccc"):
            here.adverts.on_indexed(index("r", commit, a=commit))
        await here.until_offered("r@cccc")
        async with reading(here.publisher) as source:
            assert len(await chain(source)) == 1
