"""An indexer takes publishers over from a frozen one, and continues where that one stopped."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from argosy.base.errors import Conflict, Forbidden, Invalid, NotFound
from argosy.ipni.backends.memory import MemoryIndexStore
from argosy.ipni.indexer.service import IndexerService
from argosy.ipni.model import Assignment, Provider
from tests.ipni.indexer.crashing import CrashingStore
from tests.ipni.indexer.stage import METADATA, SETTINGS, Chain, ChainSources, SetUsage, follow, has, hashes, key_of

ASSIGNED = replace(SETTINGS, use_assigner=True)


class Pool:
    """Indexers that fetch each other's providers by `http://<name>`."""

    def __init__(self, *chains: Chain) -> None:
        self._chains = chains
        self.indexers: dict[str, IndexerService] = {}
        self.stores: dict[str, CrashingStore] = {}

    async def start(
        self, name: str, usage: SetUsage | None = None, store: MemoryIndexStore | None = None
    ) -> IndexerService:
        self.stores[name] = CrashingStore(store or MemoryIndexStore())
        self.indexers[name] = await IndexerService.open(
            self.stores[name],
            ChainSources(*self._chains),
            settings=ASSIGNED,
            usage=usage or SetUsage(),
            providers_of=self._providers,
        )
        return self.indexers[name]

    async def _providers(self, url: str) -> Sequence[Provider]:
        return self.indexers[url.removeprefix("http://")].providers()

    async def close(self) -> None:
        for indexer in self.indexers.values():
            await indexer.close()


async def test_an_indexer_in_a_pool_accepts_only_its_assigned_publishers() -> None:
    chain = Chain()
    chain.add(b"1", hashes("1", 2))
    pool = Pool(chain)
    indexer = await pool.start("a")
    with pytest.raises(Forbidden, match="not assigned"):
        await indexer.announce(chain.announcement())
    await indexer.assign(chain.id)
    with pytest.raises(Invalid, match="already assigned"):
        await indexer.assign(chain.id)
    await follow(indexer, chain)
    assert all(await has(indexer, hashes("1", 2)))
    assert indexer.assignments() == (Assignment(chain.id),)
    again = await pool.start("a again", store=pool.stores["a"].inner)
    assert again.assignments() == (Assignment(chain.id),)
    await again.unassign(chain.id)
    with pytest.raises(NotFound, match="was not assigned"):
        await again.unassign(chain.id)
    assert again.preferred_publishers() == [chain.id], "it prefers a publisher it already has"
    await pool.close()


@pytest.mark.parametrize("fills_after", range(2, 18, 3))
async def test_all_entries_are_found_on_one_indexer_or_the_other_and_ingested_once(fills_after: int) -> None:
    """IPN-1, with several providers on one chain and extended providers of a binary context."""
    chain = Chain()
    other = key_of("other").peer_id
    chain.add(b"1", hashes("1", 12))
    chain.extend(["friend"], b"\xff\xfe", metadata=METADATA)
    chain.add(b"2", hashes("2", 12), provider=other)
    chain.add(b"3", hashes("3", 12))
    everything = [each for name in "123" for each in hashes(name, 12)]
    pool = Pool(chain)
    full = await pool.start("full", SetUsage(fills_after=fills_after))
    await full.assign(chain.id)
    await follow(full, chain)
    await full.freeze()
    chain.fetched.clear()
    fresh = await pool.start("fresh")
    await fresh.handoff(chain.id, frozen_id=full.status().id, frozen_url="http://full")
    await fresh.wait_idle(chain.id)
    on_full, on_fresh = await has(full, everything), await has(fresh, everything)
    assert all(a or b for a, b in zip(on_full, on_fresh, strict=True))
    applied = [each for each in chain.ads if await full.is_indexed(each)]
    assert not [each for each in applied if await fresh.is_indexed(each) and each != applied[-1]]
    assert len(pool.stores["fresh"].stored) == len(set(pool.stores["fresh"].stored))
    partly = len(pool.stores["full"].stored) + len(pool.stores["fresh"].stored) - len(everything)
    assert 0 <= partly < 12, "only an advertisement that was partly stored is there twice"
    assert fresh.assignments() == (Assignment(chain.id, full.status().id),)
    assert fresh.provider(chain.id).extended == full.provider(chain.id).extended
    assert b"\xff\xfe" in fresh.provider(chain.id).extended.contexts
    await pool.close()


async def test_a_second_handoff_starts_where_the_first_successor_froze() -> None:
    chain = Chain()
    chain.add(b"1", hashes("1", 3))
    pool = Pool(chain)
    first = await pool.start("first")
    await first.assign(chain.id)
    await follow(first, chain)
    await first.freeze()
    second = await pool.start("second")
    await second.handoff(chain.id, frozen_id="x", frozen_url="http://first")
    await second.wait_idle(chain.id)
    await second.freeze()
    chain.add(b"2", hashes("2", 3))
    third = await pool.start("third")
    await third.handoff(chain.id, frozen_id="y", frozen_url="http://second")
    await third.wait_idle(chain.id)
    assert pool.stores["second"].stored == []
    assert sorted(pool.stores["third"].stored) == sorted(hashes("2", 3))
    await pool.close()


async def test_a_frozen_indexer_accepts_no_publisher() -> None:
    chain = Chain()
    pool = Pool(chain)
    frozen = await pool.start("frozen")
    await frozen.freeze()
    with pytest.raises(Conflict, match="frozen"):
        await frozen.assign(chain.id)
    with pytest.raises(Conflict, match="frozen"):
        await frozen.handoff(chain.id, frozen_id="x", frozen_url="http://frozen")
    assert frozen.assignments() == ()
    await pool.close()


async def test_nothing_to_hand_off_assigns_nothing() -> None:
    chain = Chain()
    pool = Pool(chain)
    await pool.start("empty")
    fresh = await pool.start("fresh")
    await fresh.handoff(chain.id, frozen_id="x", frozen_url="http://empty")
    assert fresh.assignments() == ()
    await pool.close()


async def test_policy_applies_to_publishers_handed_over() -> None:
    chain = Chain()
    chain.add(b"1", hashes("1", 3), provider=key_of("other").peer_id)
    pool = Pool(chain)
    full = await pool.start("full")
    await full.assign(chain.id)
    await follow(full, chain)
    await full.freeze()
    fresh = await pool.start("fresh")
    fresh.block(key_of("other").peer_id)
    with pytest.raises(Forbidden):
        await fresh.handoff(chain.id, frozen_id="x", frozen_url="http://full")
    assert fresh.assignments() == ()
    assert fresh.providers() == []
    await pool.close()


async def test_known_publishers_may_be_adopted_instead_of_offered() -> None:
    chain, store = Chain(), MemoryIndexStore()
    chain.add(b"1", hashes("1", 3))
    alone = await IndexerService.open(store, ChainSources(chain), settings=SETTINGS, usage=SetUsage())
    await follow(alone, chain)
    await alone.close()
    pooled = await IndexerService.open(store, ChainSources(chain), settings=ASSIGNED, usage=SetUsage())
    assert (pooled.preferred_publishers(), pooled.assignments()) == ([chain.id], ())
    adopting = replace(ASSIGNED, adopt_known=True)
    pooled = await IndexerService.open(store, ChainSources(chain), settings=adopting, usage=SetUsage())
    assert (pooled.preferred_publishers(), pooled.assignments()) == ([], (Assignment(chain.id),))
    await pooled.close()


async def test_providers_of_another_indexer_can_be_imported() -> None:
    chain = Chain()
    chain.add(b"1", hashes("1", 3))
    pool = Pool(chain)
    there = await pool.start("there")
    await there.assign(chain.id)
    await follow(there, chain)
    here = await IndexerService.open(
        MemoryIndexStore(), ChainSources(chain), settings=SETTINGS, usage=SetUsage(), providers_of=pool._providers
    )
    assert await here.import_providers("http://there") == 1
    await here.wait_idle(chain.id)
    assert all(await has(here, hashes("1", 3)))
    assert await here.import_providers("http://there") == 0
    with pytest.raises(Conflict, match="assigner"):
        await there.import_providers("http://there")
    await here.close()
    await pool.close()
