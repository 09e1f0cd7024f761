"""Whatever is published, and however often the indexer dies, fills up and is emptied again on the way, in the end it
answers like one that read the chain without faults."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.base.errors import Conflict
from argosy.ipni import keys
from argosy.ipni.backends.memory import MemoryIndexStore
from argosy.ipni.indexer.service import IndexerService
from argosy.ipni.model import ProviderResult
from argosy.ipni.ports import IndexStore
from tests.ipni.indexer.crashing import Crash, CrashingStore, rows_of
from tests.ipni.indexer.stage import SETTINGS, Chain, ChainSources, SetUsage, follow, hashes, key_of

POOL = hashes("pool", 24)
OTHER = key_of("other").peer_id
CONTEXTS = (b"a", b"b", b"\xff")


@dataclass(frozen=True)
class Added:
    context: bytes
    start: int
    count: int
    metadata: bytes
    is_other: bool
    is_tree: bool


@dataclass(frozen=True)
class Removed:
    context: bytes
    is_other: bool


@dataclass(frozen=True)
class Changed:
    context: bytes
    metadata: bytes
    address: str


@dataclass(frozen=True)
class Extended:
    names: tuple[str, ...]
    context: bytes
    is_override: bool


contexts, metadata = st.sampled_from(CONTEXTS), st.sampled_from([b"one", b"two"])
adverts = st.one_of(
    st.builds(Added, contexts, st.integers(0, 20), st.integers(1, 20), metadata, st.booleans(), st.booleans()),
    st.builds(Removed, contexts, st.booleans()),
    st.builds(Changed, contexts, metadata, st.sampled_from(["/dns4/x.example/tcp/1", "/dns4/y.example/tcp/1"])),
    st.builds(Extended, st.sampled_from([(), ("e",), ("e", "f")]), st.sampled_from([b"", *CONTEXTS]), st.booleans()),
)


@dataclass(frozen=True)
class Life:
    """One life of the process: how much has been published at its start, and what ends it."""

    published: int
    crashes_at: int | None
    fills_after: int | None


lives = st.builds(
    Life,
    st.integers(1, 3),
    st.none() | st.integers(1, 25),
    st.none() | st.integers(0, 25),
)


def publish(chain: Chain, ad: Added | Removed | Changed | Extended) -> None:
    match ad:
        case Added(context, start, count, metadata, is_other, is_tree):
            entries = chain.hamt(POOL[start : start + count]) if is_tree else chain.chunks(POOL[start : start + count])
            chain.add(context, entries=entries, metadata=metadata, provider=OTHER if is_other else None)
        case Removed(context, is_other):
            chain.remove(context, provider=OTHER if is_other else None)
        case Changed(context, metadata, address):
            chain.add(context, metadata=metadata, addresses=(address,))
        case Extended(names, context, is_override):
            chain.extend(names, context, is_override=is_override, metadata=b"three" if context else b"")


async def opened(store: IndexStore, chain: Chain, usage: SetUsage) -> IndexerService:
    return await IndexerService.open(
        store, ChainSources(chain), settings=replace(SETTINGS, unfreeze_on_start=True), usage=usage
    )


async def answers(indexer: IndexerService) -> list[set[ProviderResult]]:
    return [set(found) for found in await indexer.find(POOL)]


async def in_peace(ads: list[Added | Removed | Changed | Extended]) -> list[set[ProviderResult]]:
    chain = Chain()
    for ad in ads:
        publish(chain, ad)
    indexer = await opened(MemoryIndexStore(), chain, SetUsage())
    await follow(indexer, chain)
    found = await answers(indexer)
    await indexer.close()
    return found


async def one_by_one(ads: list[Added | Removed | Changed | Extended]) -> list[set[ProviderResult]]:
    chain = Chain()
    indexer = await opened(MemoryIndexStore(), chain, SetUsage())
    for ad in ads:
        publish(chain, ad)
        await follow(indexer, chain)
    found = await answers(indexer)
    await indexer.close()
    return found


async def in_trouble(
    ads: list[Added | Removed | Changed | Extended], troubles: list[Life]
) -> list[set[ProviderResult]]:
    chain, store = Chain(), MemoryIndexStore()
    waiting = list(ads)
    for life in troubles:
        for ad in waiting[: life.published]:
            publish(chain, ad)
        waiting = waiting[life.published :]
        crashing = CrashingStore(store)
        try:
            indexer = await opened(crashing, chain, SetUsage(fills_after=life.fills_after))
        except Conflict:
            continue  # still full: it cannot be unfrozen
        crashing.crashes_at = None if life.crashes_at is None else crashing.calls + life.crashes_at
        with suppress(Crash):
            await follow(indexer, chain)
        await indexer.close()
        marks = await rows_of(store, keys.MARKS)
        done = [keys.mark(ad) in marks for ad in chain.ads]
        assert done == sorted(done, reverse=True), "IPN-3"
    for ad in waiting:
        publish(chain, ad)
    indexer = await opened(store, chain, SetUsage())
    await indexer.sync(chain.id, chain.peer.addresses[0])
    await indexer.wait_idle(chain.id)
    assert "'Error'" not in str(indexer.sync_status(chain.id))
    found = await answers(indexer)
    await indexer.close()
    return found


@settings(max_examples=30, deadline=None)
@given(st.lists(adverts, min_size=1, max_size=8), st.lists(lives, max_size=4))
def test_faults_during_ingest_do_not_change_the_result(
    ads: list[Added | Removed | Changed | Extended], troubles: list[Life]
) -> None:
    expected = asyncio.run(in_peace(ads))
    assert asyncio.run(in_trouble(ads, troubles)) == expected
    assert asyncio.run(one_by_one(ads)) == expected
