"""A pool under fire: an assigner, four indexers and a fifth, twenty publishers, all over real HTTP.

One indexer fills and freezes in the middle of an advertisement, one is killed in the middle of ingest, the assigner is
destroyed and replaced, an indexer is added. Meanwhile somebody asks for everything without a pause.
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
    Asker,
    Author,
    Chapter,
    Member,
    Press,
    asking,
    press,
    processes,
    until,
)
from tests.journeys.content_watch import OrderWatch, Watch

AUTHORS = 20
SETTLED = 2  # chapters that are whole before anything happens
HELD = 3  # the chapter whose second chunk nobody gets until it is released
CHAPTERS = 6
REPLICATION = 2
INDEXER = {
    "ipni_use_assigner": "true", "ipni_sync_allow_private": "true", "ipni_sync_grace_s": "120",
    "ipni_sync_connections_per_host_max": "128", "ipni_workers_max": "64", "ipni_scans_max": "64",
    "ipni_tick_s": "0.3", "ipni_sweep_s": "0.2",
}  # fmt: skip


class Pool:
    """The processes of the test, and what it asks of them."""

    def __init__(self, folder: Path, made: Any, asker: Asker, house: Press) -> None:
        self._folder = folder
        self._made = made
        self.asker = asker
        self.house = house
        self.indexers: dict[str, Member] = {}
        self.urls: dict[str, str] = {}
        self.assigner: Member | None = None
        self.gateway = ""
        self.pool_file = folder / "pool.json"

    async def start(self, *names: str) -> None:
        for name in names:
            self.usage(name, 10)
            self.indexers[name] = self._made(name, "indexer", **INDEXER, ipni_usage_file=str(self._usage_file(name)))
        await asyncio.gather(*(self.indexers[name].up() for name in names))
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
            self.assigner = self._made(
                "assigner",
                "assigner",
                assigner_pool_file=str(self.pool_file),
                assigner_poll_s="0.3",
                assigner_watch_s="0.2",
                assigner_indexer_token=TOKEN,
            )
        else:
            self.assigner.start()
        await self.assigner.up()

    async def start_gateway(self) -> None:
        member = self._made("gateway", "gateway", **GATEWAY, content_pool_file=str(self.pool_file))
        await member.up()
        self.gateway = member.url

    async def announce(self, authors: Iterable[Author]) -> None:
        assert self.assigner is not None
        url = self.assigner.url
        assert set(await asyncio.gather(*(self.asker.announce(url, author) for author in authors))) == {204}

    async def assignments(self, name: str) -> list[Assignment]:
        async with self.indexers[name].client() as client:
            return await client.assignments()

    async def holders(self, multihashes: Sequence[bytes]) -> dict[bytes, set[str]]:
        """By multihash who finds it."""
        held: dict[bytes, set[str]] = {multihash: set() for multihash in multihashes}
        for name, url in self.urls.items():
            for at in range(0, len(multihashes), BATCH):
                for found in await self.asker.find(url, multihashes[at : at + BATCH]) or ():
                    held[found].add(name)
        return held

    async def spread(self, multihashes: Sequence[bytes], what: str) -> None:
        async def is_spread() -> bool:
            return all(len(names) >= REPLICATION for names in (await self.holders(multihashes)).values())

        await until(is_spread, what)

    async def door(self, multihashes: Sequence[bytes]) -> set[bytes] | None:
        return await self.asker.find(self.gateway, multihashes)


def of(chapters: Iterable[Chapter]) -> list[bytes]:
    return [multihash for chapter in chapters for multihash in chapter.multihashes]


async def published(pool: Pool, count: int) -> None:
    for author in pool.house.authors:
        for _ in range(count):
            await author.write()


async def ingested_up_to_the_held_chunk(pool: Pool) -> None:
    """Every indexer has stored the first chunk of the held chapter of every publisher it has, and waits."""
    authors = pool.house.authors
    held = [chunks[1] for author in authors if (chunks := await author.chunks(author.chapters[HELD]))]
    pool.house.holding.hold(held)
    await pool.announce(authors)
    await pool.spread([author.chapters[HELD].early for author in authors], "all are in the middle of a chapter")
    whole = await pool.holders([author.chapters[HELD].late for author in authors])
    assert not any(whole.values())


async def replicated(pool: Pool) -> bool:
    """As the assigner sees it."""
    assert pool.assigner is not None
    rows = (await pool.asker.get(f"{pool.assigner.url}/assignments"))["publishers"]
    rows = {row["publisher"]: row for row in rows}
    return all(
        (row := rows.get(author.id)) and len(row["holders"]) >= REPLICATION and not row["is_short"]
        for author in pool.house.authors
    )


async def expected_multihashes(pool: Pool, name: str) -> int:
    """What an indexer stores if it begins each publisher where it should, and stores everything once."""
    by_id = {author.id: author for author in pool.house.authors}
    async with pool.indexers["a"].client() as client:
        stops = {each.id: each.frozen_at for each in await client.providers()}
    total = 0
    for assignment in await pool.assignments(name):
        author = by_id[assignment.publisher]
        ads = [chapter.ad for chapter in author.chapters]
        first = ads.index(stop) + 1 if assignment.continued and (stop := stops[author.id]) else 0
        total += len(of(author.chapters[first:]))
    return total


@pytest.fixture
async def pool(tmp_path: Path) -> AsyncIterator[Pool]:
    async with asking() as asker, press() as house, processes(tmp_path) as made:
        it = Pool(tmp_path, made, asker, house)
        await it.start(*"abcd")
        it.write_pool(*"abcd")
        await it.start_assigner()
        await it.start_gateway()
        yield it


@asynccontextmanager
async def watched(pool: Pool) -> AsyncIterator[tuple[Watch, OrderWatch]]:
    """Somebody asks all the time, and to the end for everything once more."""
    watch, order = Watch(pool.door), OrderWatch(pool.asker, pool.urls, pool.house.authors)
    watching = [asyncio.ensure_future(each.run()) for each in (watch, order)]
    try:
        yield watch, order
        seen = watch.answers
        await until(lambda: watch.answers > seen + len(watch.required) // BATCH + 1, "all is asked for once more")
    finally:
        for task in watching:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def test_everything_is_found_at_every_moment_whatever_happens_to_the_pool(pool: Pool) -> None:
    """IPN-1, IPN-2 and IPN-3 with everything real."""
    authors = pool.house.authors
    for number in range(AUTHORS):
        await pool.house.author(f"author{number}")
    await published(pool, SETTLED)
    await pool.announce(authors)
    await pool.spread(of(chapter for author in authors for chapter in author.chapters), "the first chapters are spread")
    await published(pool, CHAPTERS - SETTLED)
    await ingested_up_to_the_held_chunk(pool)
    async with watched(pool) as (watch, order):
        watch.require(of(chapter for author in authors for chapter in author.chapters[:HELD]))
        await fire(pool)
        await pool.spread(of(chapter for author in authors for chapter in author.chapters), "all chapters are spread")
        watch.require(of(chapter for author in authors for chapter in author.chapters))
        await until(lambda: replicated(pool), "every publisher has its indexers again")
        await ingested_once(pool)
        await newcomers(pool)
        await removed_everywhere(pool, watch)
    assert watch.missed == []
    assert order.disorders == []
    assert order.answers > len(pool.urls)


async def fire(pool: Pool) -> None:
    """Freeze, crash and replacement, all at once."""
    pool.usage("a", 95)
    pool.indexers["b"].kill()
    pool.house.holding.release()
    assert not await pool.asker.is_whole(pool.gateway, pool.house.authors[0].chapters[0].early)

    async def is_frozen() -> bool:
        async with pool.indexers["a"].client() as client:
            return (await client.status()).is_frozen

    async def has_begun() -> bool:
        found = [each for name in "cd" for each in await pool.assignments(name)]
        return any(each.continued for each in found)

    await until(is_frozen, "the full one is frozen")
    await until(has_begun, "publishers are handed off")
    assert pool.assigner is not None
    pool.assigner.kill()
    await pool.start_assigner()
    pool.indexers["b"].start()
    await pool.indexers["b"].up()


async def ingested_once(pool: Pool) -> None:
    """The frozen one has stopped in the middle of a chapter, and its successors begin at that chapter."""
    authors = {author.id: author for author in pool.house.authors}
    async with pool.indexers["a"].client() as client:
        stops = {each.id: each.frozen_at for each in await client.providers()}
    assert stops
    assert all(stop == authors[id].chapters[HELD - 1].ad for id, stop in stops.items())
    per_author = HELD * 3 * CHUNK + CHUNK
    assert await pool.asker.metric(pool.indexers["a"], "argosy_ipni_multihashes") == len(stops) * per_author
    handed = [each for name in "bcd" for each in await pool.assignments(name) if each.continued]
    assert {each.publisher for each in handed} == set(stops)
    assert len(handed) == len(stops), "each is handed off once"
    for name in "cd":
        stored = await pool.asker.metric(pool.indexers[name], "argosy_ipni_multihashes")
        assert stored == await expected_multihashes(pool, name)
    own = [each for each in await pool.assignments("b") if not each.continued]
    stored = await pool.asker.metric(pool.indexers["b"], "argosy_ipni_multihashes")
    assert stored == await expected_multihashes(pool, "b") - len(own) * per_author, "it goes on where it was killed"


async def newcomers(pool: Pool) -> None:
    """An indexer that is added by editing the pool file takes the next publishers; nothing that was there moves."""
    before = {name: await pool.assignments(name) for name in "bcd"}
    await pool.start("e")
    pool.write_pool(*"abcde")  # which the gateway reads, too
    assert pool.assigner is not None
    url = pool.assigner.url

    async def is_known() -> bool:
        rows = (await pool.asker.get(f"{url}/pool"))["indexers"]
        return [row["state"] for row in rows] == ["frozen", "active", "active", "active", "active"]

    await until(is_known, "the assigner knows the new indexer")
    new = [await pool.house.author(f"newcomer{number}") for number in range(2)]
    for author in new:
        await author.write()
    await pool.announce(new)
    await pool.spread(of(chapter for author in new for chapter in author.chapters), "the newcomers are spread")
    assert {each.publisher for each in await pool.assignments("e")} == {author.id for author in new}
    for name, assigned in before.items():
        kept = {each.publisher for each in await pool.assignments(name)} - {author.id for author in new}
        assert kept == {each.publisher for each in assigned}


async def removed_everywhere(pool: Pool, watch: Watch) -> None:
    """IPN-2: what the frozen one has is found no more once it is taken back."""
    authors = pool.house.authors[:AUTHORS]
    gone = of(author.chapters[0] for author in authors)
    held = await pool.holders(gone)
    assert any("a" in names for names in held.values())
    watch.release(gone)
    for author in authors:
        await author.publisher.remove(author.chapters[0].context)
    await pool.announce(authors)

    async def is_gone() -> bool:
        return not any((await pool.holders(gone)).values())

    await until(is_gone, "what was removed is found nowhere")
    async with pool.indexers["a"].client() as client:
        assert (await client.status()).is_frozen
