"""A publisher's chain, read back over HTTP as an indexer reads it."""

import asyncio
import resource
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from argosy.base.errors import Conflict, Invalid, NotFound
from argosy.ipni.formats import advertisement as adverts
from argosy.ipni.formats.cid import DAG_CBOR, DAG_JSON, NO_ENTRIES
from argosy.ipni.model import ExtendedPeer, Peer
from argosy.ipni.publish import publisher as service
from argosy.ipni.publish.backends.memory import MemoryChain
from argosy.ipni.publish.backends.sqlite import SqliteChain
from argosy.ipni.publish.ports import VERSION_CHARS_MAX, ChainLink, context_of, context_prefix
from argosy.ipni.publish.publisher import Publisher
from tests.ipni.publish.chains import (
    ADDRESSES,
    BITSWAP,
    FRIEND,
    HTTP,
    KEY,
    chain,
    chain_of,
    hashes,
    multihashes,
    read_context_entries,
    reading,
)


@pytest.fixture
async def publisher() -> Publisher:
    return await Publisher.open(KEY, MemoryChain(), addresses=ADDRESSES, chunk_multihashes=3)


@pytest.mark.parametrize("codec", [DAG_JSON, DAG_CBOR])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_published_entries_can_be_read_and_verified(tmp_path: Path, kind: str, codec: int) -> None:
    async with chain_of(kind, tmp_path) as store:
        publisher = await Publisher.open(KEY, store, addresses=ADDRESSES, codec=codec, chunk_multihashes=3)
        words = hashes(*range(8))
        cid = await publisher.publish(b"ctx", BITSWAP, words)
        async with reading(publisher) as source:
            (ad,) = await chain(source)
            parts = await multihashes(source, ad.entries)
    assert cid == publisher.head
    assert cid.codec == ad.entries.codec == codec
    assert adverts.signer(ad) == KEY.peer_id == ad.provider
    assert (ad.addresses, ad.context, ad.metadata) == (ADDRESSES, b"ctx", BITSWAP)
    assert parts == [words[6:], words[3:6], words[:3]]  # the error names the chunk written last


async def test_an_empty_chain_has_no_head(publisher: Publisher) -> None:
    async with reading(publisher) as source:
        assert await source.head() is None


async def test_a_removal_a_metadata_update_and_new_addresses_are_advertised_in_order(publisher: Publisher) -> None:
    await publisher.publish(b"a", BITSWAP, hashes("x"))
    await publisher.publish(b"b", BITSWAP, hashes("y"))
    await publisher.update_metadata(b"b", HTTP)
    await publisher.update_addresses(["/ip4/203.0.113.9/tcp/1"])
    await publisher.remove(b"a")
    async with reading(publisher) as source:
        adverts_read = [
            (ad.context, ad.metadata, ad.entries == NO_ENTRIES, ad.is_removal, ad.addresses)
            for ad in await chain(source)
        ]
        assert await read_context_entries(source) == {b"b": {*hashes("y")}}
    moved = ("/ip4/203.0.113.9/tcp/1",)
    assert adverts_read[2:] == [
        (b"b", HTTP, True, False, ADDRESSES),
        (b"", b"", True, False, moved),
        (b"a", b"", True, True, moved),
    ]
    assert [
        (published.context, published.metadata, published.multihashes) for published in await publisher.list_contexts()
    ] == [(b"b", HTTP, 1)]


async def test_a_superseded_context_is_removed_after_its_successor_is_published(publisher: Publisher) -> None:
    old, new = context_of("repo", "c0ffee"), context_of("repo", "decade")
    await publisher.publish(old, HTTP, hashes("same", "old"))
    before = publisher.head
    await publisher.publish(new, HTTP, hashes("same", "new"), supersedes=[old, b"never there"])
    async with reading(publisher) as source:
        last = (await chain(source))[-2:]
        assert [(ad.context, ad.is_removal) for ad in last] == [(new, False), (old, True)]
        assert last[0].previous == before
    assert [published.context for published in await publisher.list_contexts(context_prefix("repo"))] == [new]


async def test_another_provider_may_be_published_for(publisher: Publisher) -> None:
    friend = Peer(FRIEND.peer_id, ("/ip4/203.0.113.8/tcp/4001",))
    await publisher.publish(b"theirs", BITSWAP, hashes("x"), provider=friend)
    async with reading(publisher) as source:
        (ad,) = await chain(source)
    assert (ad.provider, ad.addresses) == (friend.id, friend.addresses)
    assert adverts.signer(ad) == KEY.peer_id
    assert await publisher.list_contexts() == []
    assert [published.context for published in await publisher.list_contexts(provider=friend.id)] == [b"theirs"]


async def test_extended_providers_sign_for_themselves_and_the_publisher_is_named(publisher: Publisher) -> None:
    friend = ExtendedPeer(FRIEND.peer_id, ("/ip4/203.0.113.8/tcp/4001",), HTTP)
    await publisher.extend([(friend, FRIEND)])
    await publisher.extend([(friend, FRIEND)], context=b"one", metadata=BITSWAP, is_override=True)
    await publisher.extend([])
    async with reading(publisher) as source:
        first, second, third = await chain(source)  # which checks each signature against its signer
    assert first.extension is not None
    assert second.extension is not None
    assert third.extension is not None
    assert [peer.id for peer in first.extension.peers] == [KEY.peer_id, FRIEND.peer_id]
    assert (second.extension.is_override, second.context) == (True, b"one")
    assert third.extension.peers == ()
    with pytest.raises(Invalid, match="name the context"):
        await publisher.extend([(friend, FRIEND)], is_override=True)


@pytest.mark.parametrize(
    ("context", "metadata", "message"),
    [(b"c" * 65, BITSWAP, "a context of 65 bytes"), (b"c", b"m" * 1025, "metadata of 1025"), (b"c", b"", "metadata")],
)
async def test_values_the_protocol_forbids_are_rejected_before_anything_is_stored(
    publisher: Publisher, context: bytes, metadata: bytes, message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        await publisher.publish(context, metadata, hashes("x"))
    assert publisher.head is None


async def test_only_what_is_published_can_be_removed_or_updated(publisher: Publisher) -> None:
    with pytest.raises(NotFound, match=r"context 6e6f of .* is not published"):
        await publisher.remove(b"no")
    with pytest.raises(NotFound, match="is not published"):
        await publisher.update_metadata(b"no", HTTP)


async def test_the_chain_continues_after_a_restart(tmp_path: Path) -> None:
    async with chain_of("sqlite", tmp_path) as store:
        publisher = await Publisher.open(KEY, store)
        first = await publisher.publish(b"a", BITSWAP, hashes("x"))
    async with chain_of("sqlite", tmp_path) as store:
        publisher = await Publisher.open(KEY, store)
        assert publisher.head == first
        await publisher.publish(b"b", BITSWAP, hashes("y"))
        async with reading(publisher) as source:
            assert [ad.previous for ad in await chain(source)] == [None, first]
            assert await read_context_entries(source) == {b"a": {*hashes("x")}, b"b": {*hashes("y")}}


async def test_a_chain_is_not_continued_with_another_key(tmp_path: Path) -> None:
    for kind in ("memory", "sqlite"):
        async with chain_of(kind, tmp_path) as store:
            await Publisher.open(KEY, store)
            with pytest.raises(Conflict, match=f"belongs to {KEY.peer_id}"):
                await Publisher.open(FRIEND, store)


async def test_a_second_process_cannot_fork_the_chain(tmp_path: Path) -> None:
    async with chain_of("sqlite", tmp_path) as store:
        publisher = await Publisher.open(KEY, store)
        await publisher.publish(b"a", BITSWAP, hashes("x"))
        with pytest.raises(Conflict, match="another process publishes the chain"):
            await SqliteChain.open(tmp_path / "chain.db")


async def test_a_publication_that_breaks_off_leaves_the_chain_as_it_was(tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield from hashes(*range(7))
        raise OSError("the disk that is hashed has gone")

    async with chain_of("sqlite", tmp_path) as store:
        publisher = await Publisher.open(KEY, store, chunk_multihashes=2)
        first = await publisher.publish(b"a", BITSWAP, hashes("x"))
        with pytest.raises(OSError, match="has gone"):
            await publisher.publish(b"b", BITSWAP, broken())
        assert (publisher.head, await publisher.find_context(b"b")) == (first, None)
        assert await store.sweep(100) == 3  # unreferenced chunks
        assert await store.sweep(100) == 0


async def test_the_entries_of_a_removed_context_are_freed_and_shared_ones_stay(tmp_path: Path) -> None:
    async with chain_of("sqlite", tmp_path) as store:
        publisher = await Publisher.open(KEY, store, chunk_multihashes=1)
        await publisher.publish(b"a", BITSWAP, hashes("shared", "own"))
        await publisher.publish(b"b", BITSWAP, hashes("shared"))
        async with reading(publisher) as source:
            of_a, of_b = [ad.entries for ad in await chain(source)]
            await publisher.remove(b"a")
            assert await multihashes(source, of_b) == [hashes("shared")]
            with pytest.raises(NotFound):
                await source.block(of_a, is_entries=True)
            assert len(await chain(source)) == 3


async def test_a_context_with_very_many_chunks_becomes_several_advertisements(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "CHUNKS_PER_AD_MAX", 2)
    words = hashes(*range(14))
    await publisher.publish(b"big", BITSWAP, words)
    async with reading(publisher) as source:
        adverts_read = [len(await multihashes(source, ad.entries)) for ad in await chain(source)]
        assert await read_context_entries(source) == {b"big": set(words)}
    assert adverts_read == [2, 2, 1]
    published = await publisher.find_context(b"big")
    assert published is not None
    assert (published.multihashes, published.ad) == (14, publisher.head)


async def test_multihashes_may_come_from_a_generator(publisher: Publisher) -> None:
    async def made() -> AsyncIterator[bytes]:
        for word in hashes(*range(4)):
            await asyncio.sleep(0)
            yield word

    await publisher.publish(b"a", BITSWAP, made())
    async with reading(publisher) as source:
        assert await read_context_entries(source) == {b"a": set(hashes(*range(4)))}


async def test_concurrent_changes_are_serialised(publisher: Publisher) -> None:
    names = [f"c{number}".encode() for number in range(10)]
    await asyncio.gather(*(publisher.publish(name, BITSWAP, hashes(name.decode())) for name in names))
    async with reading(publisher) as source:
        assert [ad.context for ad in await chain(source)] == names


async def test_a_started_change_finishes_although_its_caller_was_cancelled() -> None:
    class SlowChain(MemoryChain):
        began, may_end = asyncio.Event(), asyncio.Event()

        async def append(self, links: Sequence[ChainLink]) -> None:
            self.began.set()
            await self.may_end.wait()
            await super().append(links)

    store = SlowChain()
    publisher = await Publisher.open(KEY, store)
    leaving = asyncio.ensure_future(publisher.publish(b"a", BITSWAP, hashes("x")))
    await store.began.wait()
    leaving.cancel()
    following = asyncio.ensure_future(publisher.publish(b"b", BITSWAP, hashes("y")))
    await asyncio.sleep(0)
    store.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    await following
    async with reading(publisher) as source:
        assert [ad.context for ad in await chain(source)] == [b"a", b"b"]


async def test_half_a_million_multihashes_need_little_memory_and_no_space_when_removed(tmp_path: Path) -> None:
    count = 500_000

    def many() -> Iterator[bytes]:
        for number in range(count):
            yield b"\x12\x20" + number.to_bytes(32, "big")

    async with chain_of("sqlite", tmp_path) as store:
        publisher = await Publisher.open(KEY, store, codec=DAG_CBOR)
        before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        await publisher.publish(b"many", BITSWAP, many())
        grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
        published = await publisher.find_context(b"many")
        assert published is not None
        assert published.multihashes == count
        await publisher.remove(b"many")
    assert (tmp_path / "chain.db").stat().st_size < 1 << 20  # 18 MB before: removal frees the space
    assert grown_kib < 64 * 1024  # 31 chunks; all multihashes as objects would be 34 MiB


def test_contexts_fit_the_protocol_limit_and_are_distinct() -> None:
    assert context_of("repo", "c0ffee") == b"repo@c0ffee"
    long = "host.example/group/" + "very-" * 30 + "long"
    names = ["repo", "repo2", long, long + "x", "a@b", "a_b"]
    made = [context_of(name, "d" * 40) for name in names]
    assert all(len(context) <= 64 for context in made)
    assert len({context_prefix(name) for name in names}) == len(names)
    assert all(
        context.startswith(context_prefix(other)) == (name == other)
        for name, context in zip(names, made, strict=True)
        for other in names
    )
    assert context_of("repo", "d" * 40) == b"repo@" + b"d" * VERSION_CHARS_MAX
    for version in ("", "a@b", "é"):
        with pytest.raises(Invalid, match="a version must be"):
            context_of("repo", version)
