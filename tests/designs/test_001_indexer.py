"""Document 001, "Indexer Scaling Design for Ingest-heavy Workload": one indexer, sentence by sentence."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from argosy.base.errors import Conflict, Forbidden
from argosy.ipni.backends.memory import MemoryIndexStore
from argosy.ipni.backends.rocks import RocksStore
from argosy.ipni.indexer import telemetry
from argosy.ipni.indexer.service import IndexerService
from argosy.ipni.ports import IndexStore
from argosy.ipni.settings import IndexerSettings
from argosy.ipni.web.providers_json import decode_provider, encode_provider
from tests.ipni.assigner.site import site
from tests.ipni.indexer.stage import SETTINGS, Chain, ChainSources, SetUsage, follow, has, hashes, key_of
from tests.ipni.indexer.test_maintenance import Stage

POOLED = replace(SETTINGS, use_assigner=True)
THAWING = replace(SETTINGS, unfreeze_on_start=True)


async def open_indexer(
    store: IndexStore, *chains: Chain, settings: IndexerSettings = SETTINGS, usage: SetUsage | None = None
) -> IndexerService:
    return await IndexerService.open(store, ChainSources(*chains), settings=settings, usage=usage or SetUsage())


class RisingUsage(SetUsage):
    """A disk whose usage grows with every reading."""

    def percent(self) -> float:
        self.value += 1.0
        return self.value


# Data ingestion


async def test_an_announcement_makes_the_indexer_fetch_new_advertisements() -> None:
    """the indexer receives an “announce” message announcing the availability of new index data advertisement(s) from a
    publisher, and in response, the indexer subsequently retrieves all index data that has not already been retrieved
    from the publisher."""
    chain = Chain()
    for name in "ab":
        chain.add(name.encode(), hashes(name, 8))
    indexer = await open_indexer(MemoryIndexStore(), chain)
    await follow(indexer, chain)
    assert all(await has(indexer, hashes("a", 8) + hashes("b", 8)))
    before = set(chain.fetched)
    chain.fetched.clear()
    chain.add(b"c", hashes("c", 8))
    await follow(indexer, chain)
    assert all(await has(indexer, hashes("c", 8)))
    assert not before & set(chain.fetched)
    await indexer.close()


async def test_only_publishers_of_the_allow_list_are_ingested() -> None:
    """Assignment means adding the publisher to an indexer’s allow list. An indexer will ingest index data from only the
    publishers in its allow list."""
    mine, other = Chain("mine"), Chain("other")
    mine.add(b"m", hashes("m", 3))
    other.add(b"o", hashes("o", 3))
    indexer = await open_indexer(MemoryIndexStore(), mine, other, settings=POOLED)
    await indexer.assign(mine.id)
    await follow(indexer, mine)
    with pytest.raises(Forbidden, match="not assigned"):
        await indexer.announce(other.announcement())
    assert await has(indexer, [*hashes("m", 1), *hashes("o", 1)]) == [True, False]
    assert other.fetched == []
    await indexer.close()


async def test_everything_an_assigned_publisher_publishes_is_ingested_for_any_provider() -> None:
    """An indexer node will handle the ingestion of all advertisements and multihash entries published by the publishers
    assigned to it."""
    chain = Chain()
    chain.add(b"own", hashes("own", 3))
    chain.add(b"for another", hashes("other", 3), provider=key_of("provider").peer_id)
    indexer = await open_indexer(MemoryIndexStore(), chain, settings=POOLED)
    await indexer.assign(chain.id)
    await follow(indexer, chain)
    assert all(await has(indexer, hashes("own", 3) + hashes("other", 3)))
    assert len(indexer.providers()) == 2
    await indexer.close()


# Frozen mode


@pytest.mark.parametrize(("usage", "is_frozen"), [(89.9, False), (90.0, True)])
async def test_an_indexer_freezes_at_90_percent_by_default(usage: float, is_frozen: bool) -> None:
    """When an indexer’s storage usage reaches its configured limit, `FreezeAtPercent` (default 90%), the indexer
    automatically enters “frozen” mode."""
    chain = Chain()
    chain.add(b"a", hashes("a", 3))
    indexer = await open_indexer(MemoryIndexStore(), chain, usage=SetUsage(usage))
    await follow(indexer, chain)
    assert indexer.status().is_frozen is is_frozen
    assert await has(indexer, hashes("a", 1)) == [not is_frozen]
    at_half = replace(SETTINGS, freeze_at_percent=50)
    earlier = await open_indexer(MemoryIndexStore(), chain, usage=SetUsage(usage), settings=at_half)
    await follow(earlier, chain)
    assert earlier.status().is_frozen
    await indexer.close()
    await earlier.close()


async def test_a_frozen_indexer_stores_nothing_new_and_takes_updates_and_deletions() -> None:
    """This is a mode of operation where the indexer does not store any new index data, but still processes updates and
    deletions of index data."""
    chain = Chain()
    chain.add(b"stays", hashes("stays", 3))
    chain.add(b"goes", hashes("goes", 3))
    indexer = await open_indexer(MemoryIndexStore(), chain)
    await follow(indexer, chain)
    await indexer.freeze()
    chain.add(b"new", hashes("new", 3))
    chain.add(b"stays", metadata=b"updated")
    chain.remove(b"goes")
    await follow(indexer, chain)
    assert await has(indexer, [hashes(name, 1)[0] for name in ("stays", "goes", "new")]) == [True, False, False]
    assert [result.metadata for result in (await indexer.find(hashes("stays", 1)))[0]] == [b"updated"]
    await indexer.close()


async def test_a_frozen_indexer_rejects_assignments() -> None:
    """A frozen indexer will not accept any new publisher assignments."""
    chain = Chain()
    async with site(chain) as it:
        await it.add("a")
        await it.clients["a"].freeze()
        with pytest.raises(Conflict, match="frozen"):
            await it.clients["a"].assign(chain.id)
        assert await it.clients["a"].assignments() == []


async def test_a_frozen_indexer_reports_where_and_when_it_froze_and_its_last_ad() -> None:
    """Provider information is still updated to reflect that the indexer is still handling ads, but contains an
    additional “FrozenAt” and “FrozenAtTime” to give the advertisement CID ingested before the freeze and the time the
    indexer became frozen. Internally the indexer tracks where in the ad chain it has read for the purpose of ingesting
    update and removal ads."""
    chain = Chain()
    last = chain.add(b"a", hashes("a", 3))
    indexer = await open_indexer(MemoryIndexStore(), chain)
    await follow(indexer, chain)
    await indexer.freeze()
    newest = chain.add(b"b", hashes("b", 3), addresses=("/dns4/moved.example/tcp/1",))
    await follow(indexer, chain)
    shown = encode_provider(indexer.provider(chain.id))
    assert b'"FrozenAt"' in shown
    assert b'"FrozenAtTime"' in shown
    provider = decode_provider(shown)
    assert (provider.frozen_at, provider.last_ad, provider.addresses) == (
        last,
        newest,
        ("/dns4/moved.example/tcp/1",),
    )
    assert provider.frozen_at_time > 0
    await indexer.close()


async def test_an_advertisement_interrupted_by_a_freeze_counts_as_not_ingested() -> None:
    """to give the advertisement CID ingested before the freeze"""
    chain = Chain()
    whole = chain.add(b"a", hashes("a", 12))
    chain.add(b"b", hashes("b", 40))
    indexer = await open_indexer(MemoryIndexStore(), chain, usage=SetUsage(fills_after=9))
    await follow(indexer, chain)
    assert indexer.status().is_frozen
    is_found = await has(indexer, hashes("b", 40))
    assert any(is_found)
    assert not all(is_found)
    assert indexer.provider(chain.id).frozen_at == whole
    await indexer.close()


async def test_a_frozen_indexer_still_serves_finds_over_http() -> None:
    """The indexer continues to respond to any queries for index data."""
    chain = Chain()
    chain.add(b"a", hashes("a", 3))
    async with site(chain) as it:
        await it.add("a", settings=SETTINGS)
        await it.clients["a"].announce(chain.announcement())
        await it.idle()
        await it.clients["a"].freeze()
        assert [each.id for each in await it.clients["a"].providers()] == [chain.id]
        assert await it.finders(hashes("a", 1)[0]) == ["a"]


async def test_an_operator_can_freeze_and_unfreeze() -> None:
    """An indexer can also be manually frozen using its admin API to request a freeze. […] An indexer may also be
    subsequently unfrozen."""
    chain, store = Chain(), MemoryIndexStore()
    chain.add(b"a", hashes("a", 3))
    async with site(chain) as it:
        await it.add("a", store, SETTINGS)
        await it.clients["a"].freeze()
        assert (await it.clients["a"].status()).is_frozen
        await it.clients["a"].announce(chain.announcement())
        await it.idle()
        assert await it.finders(hashes("a", 1)[0]) == []
    unfrozen = await open_indexer(store, chain, settings=THAWING)
    assert not unfrozen.status().is_frozen
    await unfrozen.sync(chain.id)
    await unfrozen.wait_idle(chain.id)
    assert all(await has(unfrozen, hashes("a", 3)))
    await unfrozen.close()


async def test_without_an_assigner_a_frozen_indexer_needs_space_and_configuration_to_unfreeze() -> None:
    """If an indexer becomes frozen and is not using an assigner service, then there is no publisher handoff. The
    indexer stops ingestion and will remain frozen until its storage capacity is increased and it is configured to
    unfreeze."""
    chain, store = Chain(), MemoryIndexStore()
    chain.add(b"a", hashes("a", 3))
    indexer = await open_indexer(store, chain, usage=SetUsage(95))
    await follow(indexer, chain)
    await indexer.close()
    still = await open_indexer(store, chain, usage=SetUsage(10))
    assert still.status().is_frozen, "free space alone does not unfreeze it"
    await still.close()
    with pytest.raises(Conflict, match="cannot unfreeze"):
        await open_indexer(store, chain, usage=SetUsage(95), settings=THAWING)
    unfrozen = await open_indexer(store, chain, usage=SetUsage(10), settings=THAWING)
    assert not unfrozen.status().is_frozen
    await unfrozen.close()


async def test_storage_never_fills_up() -> None:
    """To prevent file corruption and keep the indexer functioning, an indexer will always freeze before it reaches 100%
    capacity."""
    chain = Chain()
    chain.add(b"a", hashes("a", 400))
    usage = RisingUsage(50)
    indexer = await open_indexer(MemoryIndexStore(), chain, usage=usage)
    await follow(indexer, chain)
    stored = sum(await has(indexer, hashes("a", 400)))
    assert indexer.status().is_frozen
    assert 0 < stored < 400
    assert stored <= 4 * (90 - 50), "usage is checked before each chunk of four is stored"
    await indexer.close()


# Disk usage monitoring


@pytest.mark.parametrize(
    ("usage", "level", "is_warning"),
    [(79.9, "ok", False), (80.0, "alert", True), (87.9, "alert", True), (88.0, "critical", True)],
)
async def test_usage_is_logged_with_warnings_within_10_and_2_points_of_the_limit(
    usage: float, level: str, is_warning: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It reports this in log messages and maintains a disk usage percent metric for administrative monitoring and
    alerting. When the indexer is within 10% of the freeze limit, the log message changes to a warning. If the freeze
    limit is set at 90% usage, then the warning starts when the indexer is at or above 80% usage. When the indexer is
    within 2% of the freeze limit, a critical disk usage warning is logged."""
    stage = Stage(Chain())
    stage.usage.value = usage
    with caplog.at_level(logging.INFO, logger="argosy"):
        async with stage as indexer:
            assert not indexer.status().is_frozen
    records = [record for record in caplog.records if record.getMessage().startswith("disk usage")]
    assert [(f"level_of_usage={level}" in record.getMessage(), record.levelno) for record in records] == [
        (True, logging.WARNING if is_warning else logging.INFO)
    ]
    assert stage.metrics.value(telemetry.USAGE_PERCENT) == usage


# Unfreezing


async def test_an_unfrozen_indexer_resumes_each_publisher_where_it_froze() -> None:
    """The indexer will resume indexing, for each publisher, from the ad that was last processed before becoming
    frozen."""
    chains = [Chain(name) for name in ("p", "q")]
    store = MemoryIndexStore()
    for chain in chains:
        chain.add(b"old", hashes(f"{chain.name} old", 3))
    indexer = await open_indexer(store, *chains)
    for chain in chains:
        await follow(indexer, chain)
    await indexer.freeze()
    for chain in chains:
        chain.add(b"new", hashes(f"{chain.name} new", 3))
        await follow(indexer, chain)
        chain.fetched.clear()
    await indexer.close()
    unfrozen = await open_indexer(store, *chains, settings=THAWING)
    for chain in chains:
        await unfrozen.sync(chain.id)
        await unfrozen.wait_idle(chain.id)
        assert all(await has(unfrozen, hashes(f"{chain.name} old", 3) + hashes(f"{chain.name} new", 3)))
        assert chain.ads[0] not in chain.fetched
    await unfrozen.close()


async def test_removals_free_space_of_a_frozen_indexer(tmp_path: Path) -> None:
    """If a frozen indexer recovers enough storage from removals or other means, then the storage allocated to that node
    can be reduced."""
    chain = Chain()
    chain.add(b"stays", hashes("stays", 10))
    chain.add(b"goes", hashes("goes", 2000), chunk=1000)
    store = await RocksStore.open(tmp_path / "index")
    indexer = await open_indexer(store, chain)
    await follow(indexer, chain)
    await indexer.freeze()
    before = await indexer.stats()
    chain.remove(b"goes")
    await follow(indexer, chain)
    freed = 0
    while swept := await store.sweep(500):
        freed += swept
    assert freed == 2000
    assert (await indexer.stats()).entries <= before.entries - 2000
    assert all(await has(indexer, hashes("stays", 10)))
    await indexer.close()
    await store.close()
