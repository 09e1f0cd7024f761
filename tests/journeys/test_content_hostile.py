"""Publishers who mean harm, against a real indexer: each ends in a clear status, and costs others nothing."""

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
from tests.ipni.sync.liar import Liar, drip, hang_up, lying, pour, reply, silence
from tests.journeys.content_pool import Asker, Author, Member, asking, press, processes, until

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
class Villain:
    """A publisher of a chain that is served by somebody who answers otherwise where he is told to."""

    trick: "Trick | None"
    chain: Chain
    liar: Liar

    def serve(self) -> None:
        for cid, block in self.chain.blocks.items():
            self.liar.answers.setdefault(path(cid), [reply(block)])

    def announce(self, address: str | None = None) -> Announcement:
        assert self.chain.head is not None
        return Announcement(self.chain.head, Peer(self.chain.id, (address or self.liar.address,)))


def path(cid: Cid) -> str:
    return f"/ipni/v1/ad/{cid}"


@cache
def bomb() -> bytes:
    """A megabyte that unpacks to 256."""
    return gzip.compress(bytes(64 * MIB), 1) * 4


Trick = Callable[[Villain], None]


def endless_chain(villain: Villain) -> None:
    for number in range(3 * DEPTH_MAX):
        villain.chain.add(f"{number}".encode(), hashes(f"{number}", 1))


def endless_entries(villain: Villain) -> None:
    villain.chain.add(b"e", hashes("endless", 3 * BLOCKS_MAX), chunk=1)


def huge_chunk(villain: Villain) -> None:
    cid = villain.chain.chunks(hashes("c", 4))
    villain.liar.answers[path(cid)] = [pour(b"x" * 65536)]
    villain.chain.add(b"c", entries=cid)


def packed_chunk(villain: Villain) -> None:
    cid = villain.chain.chunks(hashes("c", 4))
    villain.liar.answers[path(cid)] = [reply(bomb(), content_encoding="gzip")]
    villain.chain.add(b"c", entries=cid)


def huge_advert(villain: Villain) -> None:
    villain.liar.answers[path(villain.chain.add(b"c", hashes("c", 4)))] = [pour(b"x" * 65536)]


def wrong_hash(villain: Villain) -> None:
    other = villain.chain.add(b"c", hashes("c", 4))
    head = villain.chain.add(b"d", hashes("d", 4))
    villain.liar.answers[path(head)] = [reply(villain.chain.blocks[other])]


def wrong_chunk_hash(villain: Villain) -> None:
    cid = villain.chain.chunks(hashes("c", 4))
    villain.liar.answers[path(cid)] = [reply(villain.chain.blocks[villain.chain.chunks(hashes("other", 4))])]
    villain.chain.add(b"c", entries=cid)


def forged_signature(villain: Villain) -> None:
    chain = villain.chain
    signed = adverts.sign(Advertisement(chain.id, (ADDRESS,), chain.chunks(hashes("c", 4)), b"c", METADATA), chain.key)
    chain.head, block = adverts.encode(replace(signed, metadata=b"another"))
    chain.blocks[chain.head] = block


def redirect_loop(villain: Villain) -> None:
    head = villain.chain.add(b"c", hashes("c", 4))
    villain.liar.answers[path(head)] = [reply(status=302, location=path(head))]


def slow_drip(villain: Villain) -> None:
    villain.liar.answers[path(villain.chain.add(b"c", hashes("c", 4)))] = [drip]


def never_answers(villain: Villain) -> None:
    villain.liar.answers[path(villain.chain.add(b"c", hashes("c", 4)))] = [silence]


def hangs_up(villain: Villain) -> None:
    villain.liar.answers[path(villain.chain.add(b"c", hashes("c", 4)))] = [hang_up]


# What the status says in the end: of the whole sync, or of an advertisement that was given up.
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
    slow_drip: "too slow",
    never_answers: "too slow",
    hangs_up: "it will be tried again",
}
CROWD = [*TRICKS, *([huge_chunk, packed_chunk] * 4)]


@asynccontextmanager
async def villains(*tricks: Trick) -> AsyncIterator[list[Villain]]:
    async with AsyncExitStack() as closing:
        made = []
        for number, trick in enumerate(tricks):
            liar = await closing.enter_async_context(lying())
            made.append(Villain(trick, Chain(f"{trick.__name__} {number}"), liar))
            trick(made[-1])
            made[-1].serve()
        yield made


@dataclass
class Scene:
    indexer: Member
    asker: Asker
    honest: Author

    async def announce(self, announce: Announcement) -> None:
        async with self.indexer.client() as client:
            await client.announce(announce)

    async def status(self, publisher: str) -> dict[str, Any]:
        async with self.indexer.client() as client:
            return dict(await client.sync_status(publisher))

    async def ended(self, publisher: str) -> dict[str, Any]:
        """Its status, once nothing is under way any more."""
        found: dict[str, Any] = {}

        async def is_over() -> bool:
            found.clear()
            found.update(await self.status(publisher))
            return found.get("State") == "idle" and ("ScanHistory" in found or "Error" in found)

        await until(is_over, "it has come to an end")
        return found

    async def honest_work(self) -> None:
        """Somebody else publishes, and is found."""
        chapter = await self.honest.write()
        assert await self.asker.announce(self.indexer.url, self.honest) == 204
        wanted = list(chapter.multihashes)

        async def is_found() -> bool:
            return await self.asker.find(self.indexer.url, wanted) == set(wanted)

        await until(is_found, "an honest publisher is served")

    def peak_bytes(self) -> int:
        """The most memory that the process has had."""
        for line in Path(f"/proc/{self.indexer.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("the machine does not tell")


@asynccontextmanager
async def scene(folder: Path, **settings: str) -> AsyncIterator[Scene]:
    async with asking() as asker, press() as house, processes(folder) as made:
        indexer = made("indexer", "indexer", **SETTINGS, **settings)
        honest = await house.author("honest")
        await indexer.up()
        yield Scene(indexer, asker, honest)


async def test_every_trick_ends_in_a_clear_status_with_bounded_memory_while_others_are_served(tmp_path: Path) -> None:
    async with scene(tmp_path, ipni_sync_allow_private="true") as it, villains(*CROWD) as bad:
        await it.honest_work()
        before = it.peak_bytes()
        for villain in bad:
            await it.announce(villain.announce())
        await it.honest_work()
        for villain in bad:
            assert villain.trick is not None
            assert TRICKS[villain.trick] in str(await it.ended(villain.chain.id)), villain.chain.name
        await it.honest_work()
        assert it.peak_bytes() - before < GROWTH_BYTES_MAX
        await nothing_unproven_counts(it, {villain.trick: villain for villain in bad})


async def nothing_unproven_counts(it: Scene, bad: "dict[Trick | None, Villain]") -> None:
    """Nobody was asked for more than the bounds allow, and what was not proven is not found."""
    assert len(bad[endless_chain].liar.asked) <= 2 * DEPTH_MAX
    assert len(bad[endless_entries].liar.asked) <= 2 * BLOCKS_MAX
    assert len(bad[redirect_loop].liar.asked) <= 10
    async with it.indexer.client() as client:
        known = {provider.id for provider in await client.providers()}
    for trick in (huge_advert, wrong_hash, forged_signature, redirect_loop, slow_drip, never_answers, hangs_up):
        assert bad[trick].chain.id not in known
    assert await it.asker.find(it.indexer.url, hashes("c", 4) + hashes("d", 4) + hashes("other", 4)) == set()


async def test_private_addresses_are_never_connected_to(tmp_path: Path) -> None:
    """Anyone can announce any address; by default the indexer does not go where only it can."""
    async with scene(tmp_path) as it, lying() as liar:
        for number, address in enumerate(
            (
                liar.address,
                f"/dns4/localhost/tcp/{liar.port}/http",
                f"/ip6/::ffff:127.0.0.1/tcp/{liar.port}/http",
                "/ip4/10.0.0.1/tcp/80/http",
                "/ip4/169.254.169.254/tcp/80/http",
                "/ip6/::1/tcp/80/http",
            )
        ):
            villain = Villain(None, Chain(f"private{number}"), liar)
            villain.chain.add(b"c", hashes("c", 4))
            villain.serve()
            await it.announce(villain.announce(address))
            assert "private address" in (await it.ended(villain.chain.id))["Error"]
        assert liar.asked == []
