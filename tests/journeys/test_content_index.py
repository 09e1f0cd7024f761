"""A pool under failures: an assigner, four indexers and a fifth, twenty publishers, all over real HTTP.

One indexer fills and freezes in the middle of an advertisement, one is killed in the middle of ingest, the assigner is
destroyed and replaced, an indexer is added. Meanwhile a watcher requests every multihash in a loop.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from argosy.ipni.model import Assignment
from tests.journeys.content_pool import (
    BATCH,
    CHUNK,
    GATEWAY,
    TOKEN,
    Author,
    Chapter,
    ContentClient,
    Member,
    PublisherServer,
    open_content_client,
    run_members,
    serve_publishers,
    wait_until,
)
from tests.journeys.content_watch import OrderWatch, Watch

AUTHORS = 20
SETTLED = 2  # chapters that are ingested before the failures
HELD = 3  # the chapter whose second chunk is withheld until released
CHAPTERS = 6
REPLICATION = 2
INDEXER = {
    "ipni_use_assigner": "true", "ipni_sync_allow_private": "true", "ipni_sync_grace_s": "120",
    "ipni_sync_connections_per_host_max": "128", "ipni_workers_max": "64", "ipni_scans_max": "64",
    "ipni_tick_s": "0.3", "ipni_sweep_s": "0.2",
}  # fmt: skip


class Pool:
    """The processes of the test, and requests to them."""

    def __init__(self, folder: Path, create_member: Any, client: ContentClient, publishers: PublisherServer) -> None:
        self._folder = folder
        self._create_member = create_member
        self.client = client
        self.publishers = publishers
        self.indexers: dict[str, Member] = {}
        self.urls: dict[str, str] = {}
        self.assigner: Member | None = None
        self.gateway = ""
        self.pool_file = folder / "pool.json"

    async def start(self, *names: str) -> None:
        for name in names:
            self.usage(name, 10)
            self.indexers[name] = self._create_member(
                name, "indexer", **INDEXER, ipni_usage_file=str(self._usage_file(name))
            )
        await asyncio.gather(*(self.indexers[name].wait_up() for name in names))
        self.urls.update({name: self.indexers[name].url for name in names})

    def usage(self, name: str, percent: int) -> None:
        self._usage_file(name).write_text(str(percent))

    def _usage_file(self, name: str) -> Path:
        return self._folder / f"{name}.usage"

    def write_pool(self, *names: str) -> None:
        urls = [self.urls[name] for name in names]
        entries = [{"AdminURL": url, "FindURL": url, "IngestURL": url} for url in urls]
        written = self._folder / "pool.json.new"
        written.write_text(json.dumps({"IndexerPool": entries, "Replication": REPLICATION}))
        written.rename(self.pool_file)

    async def start_assigner(self) -> None:
        if self.assigner is None:
            self.assigner = self._create_member(
                "assigner",
                "assigner",
                assigner_pool_file=str(self.pool_file),
                assigner_poll_s="0.3",
                assigner_watch_s="0.2",
                assigner_indexer_token=TOKEN,
            )
        else:
            self.assigner.start()
        await self.assigner.wait_up()

    async def start_gateway(self) -> None:
        member = self._create_member("gateway", "gateway", **GATEWAY, content_pool_file=str(self.pool_file))
        await member.wait_up()
        self.gateway = member.url

    async def announce(self, authors: Iterable[Author]) -> None:
        assert self.assigner is not None
        url = self.assigner.url
        assert set(await asyncio.gather(*(self.client.announce(url, author) for author in authors))) == {204}

    async def assignments(self, name: str) -> list[Assignment]:
        async with self.indexers[name].client() as client:
            return await client.assignments()

    async def holders(self, multihashes: Sequence[bytes]) -> dict[bytes, set[str]]:
        """The indexers that find each multihash."""
        held: dict[bytes, set[str]] = {multihash: set() for multihash in multihashes}
        for name, url in self.urls.items():
            for at in range(0, len(multihashes), BATCH):
                for found in await self.client.find(url, multihashes[at : at + BATCH]) or ():
                    held[found].add(name)
        return held

    async def wait_replicated(self, multihashes: Sequence[bytes], what: str) -> None:
        async def has_replicas() -> bool:
            return all(len(names) >= REPLICATION for names in (await self.holders(multihashes)).values())

        await wait_until(has_replicas, what)

    async def find_at_gateway(self, multihashes: Sequence[bytes]) -> set[bytes] | None:
        return await self.client.find(self.gateway, multihashes)


def multihashes_of(chapters: Iterable[Chapter]) -> list[bytes]:
    return [multihash for chapter in chapters for multihash in chapter.multihashes]


async def publish_chapters(pool: Pool, count: int) -> None:
    for author in pool.publishers.authors:
        for _ in range(count):
            await author.write()


async def wait_for_held_chunk(pool: Pool) -> None:
    """Every indexer has stored the first chunk of each publisher's held chapter, and waits for the second."""
    authors = pool.publishers.authors
    held = [chunks[1] for author in authors if (chunks := await author.chunks(author.chapters[HELD]))]
    pool.publishers.holding.hold(held)
    await pool.announce(authors)
    await pool.wait_replicated(
        [author.chapters[HELD].early for author in authors], "every publisher is in the middle of a chapter"
    )
    whole = await pool.holders([author.chapters[HELD].late for author in authors])
    assert not any(whole.values())


async def is_replicated(pool: Pool) -> bool:
    """As reported by the assigner."""
    assert pool.assigner is not None
    rows = (await pool.client.get(f"{pool.assigner.url}/assignments"))["publishers"]
    rows = {row["publisher"]: row for row in rows}
    return all(
        (row := rows.get(author.id)) and len(row["holders"]) >= REPLICATION and not row["is_short"]
        for author in pool.publishers.authors
    )


async def expected_multihashes(pool: Pool, name: str) -> int:
    """What an indexer stores if it starts each publisher at the right advertisement and stores everything once."""
    by_id = {author.id: author for author in pool.publishers.authors}
    async with pool.indexers["a"].client() as client:
        stops = {each.id: each.frozen_at for each in await client.providers()}
    total = 0
    for assignment in await pool.assignments(name):
        author = by_id[assignment.publisher]
        ads = [chapter.ad for chapter in author.chapters]
        first = ads.index(stop) + 1 if assignment.continued and (stop := stops[author.id]) else 0
        total += len(multihashes_of(author.chapters[first:]))
    return total


@pytest.fixture
async def pool(tmp_path: Path) -> AsyncIterator[Pool]:
    async with (
        open_content_client() as client,
        serve_publishers() as publishers,
        run_members(tmp_path) as create_member,
    ):
        new_pool = Pool(tmp_path, create_member, client, publishers)
        await new_pool.start(*"abcd")
        new_pool.write_pool(*"abcd")
        await new_pool.start_assigner()
        await new_pool.start_gateway()
        yield new_pool


@asynccontextmanager
async def watch_pool(pool: Pool) -> AsyncIterator[tuple[Watch, OrderWatch]]:
    """Watches the pool during the test and requests everything once more at the end."""
    watch, order = Watch(pool.find_at_gateway), OrderWatch(pool.client, pool.urls, pool.publishers.authors)
    watching = [asyncio.ensure_future(each.run()) for each in (watch, order)]
    try:
        yield watch, order
        previous = watch.answers
        await wait_until(
            lambda: watch.answers > previous + len(watch.required) // BATCH + 1, "everything is requested once more"
        )
    finally:
        for task in watching:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def test_every_multihash_stays_findable_during_failures_and_membership_changes(pool: Pool) -> None:
    """IPN-1, IPN-2 and IPN-3 with everything real."""
    authors = pool.publishers.authors
    for number in range(AUTHORS):
        await pool.publishers.author(f"author{number}")
    await publish_chapters(pool, SETTLED)
    await pool.announce(authors)
    await pool.wait_replicated(
        multihashes_of(chapter for author in authors for chapter in author.chapters),
        "the first chapters are replicated",
    )
    await publish_chapters(pool, CHAPTERS - SETTLED)
    await wait_for_held_chunk(pool)
    async with watch_pool(pool) as (watch, order):
        watch.require(multihashes_of(chapter for author in authors for chapter in author.chapters[:HELD]))
        await inject_failures(pool)
        await pool.wait_replicated(
            multihashes_of(chapter for author in authors for chapter in author.chapters), "all chapters are replicated"
        )
        watch.require(multihashes_of(chapter for author in authors for chapter in author.chapters))
        await wait_until(lambda: is_replicated(pool), "every publisher has its indexers again")
        await check_ingested_once(pool)
        await add_indexer(pool)
        await check_removed_everywhere(pool, watch)
    assert watch.missed == []
    assert order.disorders == []
    assert order.answers > len(pool.urls)


async def inject_failures(pool: Pool) -> None:
    """Freeze, crash and replacement, all at once."""
    pool.usage("a", 95)
    pool.indexers["b"].kill()
    pool.publishers.holding.release()
    assert not await pool.client.is_complete(pool.gateway, pool.publishers.authors[0].chapters[0].early)

    async def is_frozen() -> bool:
        async with pool.indexers["a"].client() as client:
            return (await client.status()).is_frozen

    async def has_handed_off() -> bool:
        found = [each for name in "cd" for each in await pool.assignments(name)]
        return any(each.continued for each in found)

    await wait_until(is_frozen, "the full indexer is frozen")
    await wait_until(has_handed_off, "publishers are handed off")
    assert pool.assigner is not None
    pool.assigner.kill()
    await pool.start_assigner()
    pool.indexers["b"].start()
    await pool.indexers["b"].wait_up()


async def check_ingested_once(pool: Pool) -> None:
    """The frozen indexer has stopped in the middle of a chapter, and its successors start at that chapter."""
    authors = {author.id: author for author in pool.publishers.authors}
    async with pool.indexers["a"].client() as client:
        stops = {each.id: each.frozen_at for each in await client.providers()}
    assert stops
    assert all(stop == authors[id].chapters[HELD - 1].ad for id, stop in stops.items())
    per_author = HELD * 3 * CHUNK + CHUNK
    assert await pool.client.metric(pool.indexers["a"], "argosy_ipni_multihashes") == len(stops) * per_author
    handed = [each for name in "bcd" for each in await pool.assignments(name) if each.continued]
    assert {each.publisher for each in handed} == set(stops)
    assert len(handed) == len(stops), "each is handed off once"
    for name in "cd":
        stored = await pool.client.metric(pool.indexers[name], "argosy_ipni_multihashes")
        assert stored == await expected_multihashes(pool, name)
    own = [each for each in await pool.assignments("b") if not each.continued]
    stored = await pool.client.metric(pool.indexers["b"], "argosy_ipni_multihashes")
    assert stored == await expected_multihashes(pool, "b") - len(own) * per_author, "it resumes where it was killed"


async def add_indexer(pool: Pool) -> None:
    """An indexer added by editing the pool file takes the next publishers; existing assignments do not move."""
    before = {name: await pool.assignments(name) for name in "bcd"}
    await pool.start("e")
    pool.write_pool(*"abcde")  # which the gateway reads, too
    assert pool.assigner is not None
    url = pool.assigner.url

    async def is_known() -> bool:
        rows = (await pool.client.get(f"{url}/pool"))["indexers"]
        return [row["state"] for row in rows] == ["frozen", "active", "active", "active", "active"]

    await wait_until(is_known, "the assigner knows the new indexer")
    new = [await pool.publishers.author(f"newcomer{number}") for number in range(2)]
    for author in new:
        await author.write()
    await pool.announce(new)
    await pool.wait_replicated(
        multihashes_of(chapter for author in new for chapter in author.chapters), "the new publishers are replicated"
    )
    assert {each.publisher for each in await pool.assignments("e")} == {author.id for author in new}
    for name, assigned in before.items():
        existing = {each.publisher for each in await pool.assignments(name)} - {author.id for author in new}
        assert existing == {each.publisher for each in assigned}


async def check_removed_everywhere(pool: Pool, watch: Watch) -> None:
    """IPN-2: what the frozen indexer stores is not found after it is removed."""
    authors = pool.publishers.authors[:AUTHORS]
    removed = multihashes_of(author.chapters[0] for author in authors)
    held = await pool.holders(removed)
    assert any("a" in names for names in held.values())
    watch.release(removed)
    for author in authors:
        await author.publisher.remove(author.chapters[0].context)
    await pool.announce(authors)

    async def is_gone() -> bool:
        return not any((await pool.holders(removed)).values())

    await wait_until(is_gone, "removed multihashes are found nowhere")
    async with pool.indexers["a"].client() as client:
        assert (await client.status()).is_frozen
