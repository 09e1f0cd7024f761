"""Malicious publishers against a real indexer: each sync ends in a clear status, without effect on others."""

import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from argosy.ipni.formats import advertisement as adverts
from argosy.ipni.formats.advertisement import Advertisement
from argosy.ipni.formats.cid import Cid
from argosy.ipni.formats.head import Announcement
from argosy.ipni.model import Peer
from tests.ipni.indexer.stage import ADDRESS, METADATA, Chain, hashes
from tests.ipni.sync.malicious_publisher import (
    MaliciousPublisher,
    drip,
    hang_up,
    malicious_publisher,
    pour,
    reply,
    silence,
)
from tests.journeys.content_pool import (
    Author,
    ContentClient,
    Member,
    open_content_client,
    run_members,
    serve_publishers,
    wait_until,
)

MIB = 1 << 20
GROWTH_BYTES_MAX = 160 * MIB  # a single bomb has 256
DEPTH_MAX = 60
BLOCKS_MAX = 12
GRACE_S = 2.0
SETTINGS = {
    "ipni_ads_depth_max": str(DEPTH_MAX),
    "ipni_entries_depth_max": str(BLOCKS_MAX),
    "ipni_sync_grace_s": str(GRACE_S),
    "ipni_tick_s": "3600",
}


@dataclass
class HostilePublisher:
    """A publisher whose chain is served by a server that returns malicious responses for some paths."""

    trick: "Trick | None"
    chain: Chain
    publisher: MaliciousPublisher

    def serve(self) -> None:
        for cid, block in self.chain.blocks.items():
            self.publisher.answers.setdefault(path(cid), [reply(block)])

    def announce(self, address: str | None = None) -> Announcement:
        assert self.chain.head is not None
        return Announcement(self.chain.head, Peer(self.chain.id, (address or self.publisher.address,)))


def path(cid: Cid) -> str:
    return f"/ipni/v1/ad/{cid}"


@cache
def bomb() -> bytes:
    """One MiB that unpacks to 256 MiB."""
    return gzip.compress(bytes(64 * MIB), 1) * 4


Trick = Callable[[HostilePublisher], None]


def endless_chain(hostile: HostilePublisher) -> None:
    for number in range(3 * DEPTH_MAX):
        hostile.chain.add(f"{number}".encode(), hashes(f"{number}", 1))


def endless_entries(hostile: HostilePublisher) -> None:
    hostile.chain.add(b"e", hashes("endless", 3 * BLOCKS_MAX), chunk=1)


def huge_chunk(hostile: HostilePublisher) -> None:
    cid = hostile.chain.chunks(hashes("c", 4))
    hostile.publisher.answers[path(cid)] = [pour(b"x" * 65536)]
    hostile.chain.add(b"c", entries=cid)


def packed_chunk(hostile: HostilePublisher) -> None:
    cid = hostile.chain.chunks(hashes("c", 4))
    hostile.publisher.answers[path(cid)] = [reply(bomb(), content_encoding="gzip")]
    hostile.chain.add(b"c", entries=cid)


def huge_advert(hostile: HostilePublisher) -> None:
    hostile.publisher.answers[path(hostile.chain.add(b"c", hashes("c", 4)))] = [pour(b"x" * 65536)]


def wrong_hash(hostile: HostilePublisher) -> None:
    other = hostile.chain.add(b"c", hashes("c", 4))
    head = hostile.chain.add(b"d", hashes("d", 4))
    hostile.publisher.answers[path(head)] = [reply(hostile.chain.blocks[other])]


def wrong_chunk_hash(hostile: HostilePublisher) -> None:
    cid = hostile.chain.chunks(hashes("c", 4))
    hostile.publisher.answers[path(cid)] = [reply(hostile.chain.blocks[hostile.chain.chunks(hashes("other", 4))])]
    hostile.chain.add(b"c", entries=cid)


def forged_signature(hostile: HostilePublisher) -> None:
    chain = hostile.chain
    signed = adverts.sign(Advertisement(chain.id, (ADDRESS,), chain.chunks(hashes("c", 4)), b"c", METADATA), chain.key)
    chain.head, block = adverts.encode(replace(signed, metadata=b"another"))
    chain.blocks[chain.head] = block


def redirect_loop(hostile: HostilePublisher) -> None:
    head = hostile.chain.add(b"c", hashes("c", 4))
    hostile.publisher.answers[path(head)] = [reply(status=302, location=path(head))]


def slow_drip(hostile: HostilePublisher) -> None:
    hostile.publisher.answers[path(hostile.chain.add(b"c", hashes("c", 4)))] = [drip]


def no_response(hostile: HostilePublisher) -> None:
    hostile.publisher.answers[path(hostile.chain.add(b"c", hashes("c", 4)))] = [silence]


def closes_connection(hostile: HostilePublisher) -> None:
    hostile.publisher.answers[path(hostile.chain.add(b"c", hashes("c", 4)))] = [hang_up]


# The final status: of the whole sync, or of an advertisement that was skipped.
TRICKS: dict[Trick, str] = {
    endless_chain: "IsCut",
    endless_entries: f"{BLOCKS_MAX} blocks",
    huge_chunk: "more than 4194304 bytes",
    packed_chunk: "more than 4194304 bytes",
    huge_advert: "more than 262144 bytes",
    wrong_hash: "hash",
    wrong_chunk_hash: "hash",
    forged_signature: "what was signed is not the advertisement",
    redirect_loop: "redirect",
    slow_drip: "timed out",
    no_response: "timed out",
    closes_connection: "it is retried later",
}
CROWD = [*TRICKS, *([huge_chunk, packed_chunk] * 4)]


@asynccontextmanager
async def serve_hostile(*tricks: Trick) -> AsyncIterator[list[HostilePublisher]]:
    async with AsyncExitStack() as closing:
        hostile_publishers = []
        for number, trick in enumerate(tricks):
            publisher = await closing.enter_async_context(malicious_publisher())
            hostile_publishers.append(HostilePublisher(trick, Chain(f"{trick.__name__} {number}"), publisher))
            trick(hostile_publishers[-1])
            hostile_publishers[-1].serve()
        yield hostile_publishers


@dataclass
class HostileScene:
    indexer: Member
    client: ContentClient
    honest: Author

    async def announce(self, announce: Announcement) -> None:
        async with self.indexer.client() as client:
            await client.announce(announce)

    async def status(self, publisher: str) -> dict[str, Any]:
        async with self.indexer.client() as client:
            return dict(await client.sync_status(publisher))

    async def wait_ended(self, publisher: str) -> dict[str, Any]:
        """Its status after all its syncs have ended."""
        sync_status: dict[str, Any] = {}

        async def is_over() -> bool:
            sync_status.clear()
            sync_status.update(await self.status(publisher))
            return sync_status.get("State") == "idle" and ("ScanHistory" in sync_status or "Error" in sync_status)

        await wait_until(is_over, "the sync has ended")
        return sync_status

    async def check_honest_publisher(self) -> None:
        """An honest publisher publishes, and its multihashes are found."""
        chapter = await self.honest.write()
        assert await self.client.announce(self.indexer.url, self.honest) == 204
        multihashes = list(chapter.multihashes)

        async def is_found() -> bool:
            return await self.client.find(self.indexer.url, multihashes) == set(multihashes)

        await wait_until(is_found, "an honest publisher is ingested")

    def peak_bytes(self) -> int:
        """The peak memory of the process."""
        for line in Path(f"/proc/{self.indexer.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("peak memory not available")


@asynccontextmanager
async def scene(folder: Path, **settings: str) -> AsyncIterator[HostileScene]:
    async with open_content_client() as client, serve_publishers() as publishers, run_members(folder) as create_member:
        indexer = create_member("indexer", "indexer", **SETTINGS, **settings)
        honest = await publishers.author("honest")
        await indexer.wait_up()
        yield HostileScene(indexer, client, honest)


async def test_every_attack_ends_in_a_clear_status_with_bounded_memory_while_others_are_served(tmp_path: Path) -> None:
    async with scene(tmp_path, ipni_sync_allow_private="true") as it, serve_hostile(*CROWD) as bad:
        await it.check_honest_publisher()
        before = it.peak_bytes()
        for hostile in bad:
            await it.announce(hostile.announce())
        await it.check_honest_publisher()
        for hostile in bad:
            assert hostile.trick is not None
            assert TRICKS[hostile.trick] in str(await it.wait_ended(hostile.chain.id)), hostile.chain.name
        await it.check_honest_publisher()
        assert it.peak_bytes() - before < GROWTH_BYTES_MAX
        await check_nothing_unproven(it, {hostile.trick: hostile for hostile in bad})


async def check_nothing_unproven(it: HostileScene, bad: "dict[Trick | None, HostilePublisher]") -> None:
    """The number of requests is bounded, and unproven multihashes are not found."""
    assert len(bad[endless_chain].publisher.requests) <= 2 * DEPTH_MAX
    assert len(bad[endless_entries].publisher.requests) <= 2 * BLOCKS_MAX
    assert len(bad[redirect_loop].publisher.requests) <= 10
    async with it.indexer.client() as client:
        known = {provider.id for provider in await client.providers()}
    for trick in (huge_advert, wrong_hash, forged_signature, redirect_loop, slow_drip, no_response, closes_connection):
        assert bad[trick].chain.id not in known
    assert await it.client.find(it.indexer.url, hashes("c", 4) + hashes("d", 4) + hashes("other", 4)) == set()


async def test_private_addresses_are_never_connected_to(tmp_path: Path) -> None:
    """Announcements may carry any address; by default the indexer does not connect to private ones."""
    async with scene(tmp_path) as it, malicious_publisher() as publisher:
        for number, address in enumerate(
            (
                publisher.address,
                f"/dns4/localhost/tcp/{publisher.port}/http",
                f"/ip6/::ffff:127.0.0.1/tcp/{publisher.port}/http",
                "/ip4/10.0.0.1/tcp/80/http",
                "/ip4/169.254.169.254/tcp/80/http",
                "/ip6/::1/tcp/80/http",
            )
        ):
            hostile = HostilePublisher(None, Chain(f"private{number}"), publisher)
            hostile.chain.add(b"c", hashes("c", 4))
            hostile.serve()
            await it.announce(hostile.announce(address))
            assert "private address" in (await it.wait_ended(hostile.chain.id))["Error"]
        assert publisher.requests == []
