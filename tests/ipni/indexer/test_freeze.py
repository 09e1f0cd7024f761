"""A full indexer stores no more, still honours removals, and continues where it stopped."""

from dataclasses import replace

import pytest

from argosy.base.errors import Conflict, Invalid
from argosy.ipni.backends.memory import MemoryIndexStore
from argosy.ipni.indexer.service import IndexerService
from argosy.ipni.ports import IndexStore
from argosy.ipni.settings import IndexerSettings
from tests.ipni.indexer.crashing import CrashingStore
from tests.ipni.indexer.stage import METADATA, SETTINGS, Chain, ChainSources, SetUsage, follow, has, hashes, key_of


async def opened(
    store: IndexStore, *chains: Chain, usage: SetUsage | None = None, settings: IndexerSettings = SETTINGS
) -> IndexerService:
    return await IndexerService.open(store, ChainSources(*chains), settings=settings, usage=usage or SetUsage())


async def test_the_default_is_90_percent() -> None:
    """ "default 90%"; the original ships 95."""
    assert IndexerSettings().freeze_at_percent == 90


async def test_a_frozen_indexer_stores_nothing_new_and_honours_removals_and_updates() -> None:
    """IPN-2."""
    chain, store = Chain(), MemoryIndexStore()
    chain.add(b"1", hashes("1", 4))
    applied = chain.add(b"2", hashes("2", 4))
    indexer = await opened(store, chain)
    await follow(indexer, chain)
    await indexer.freeze()
    await indexer.freeze()
    assert indexer.status().is_frozen
    provider = indexer.provider(chain.id)
    assert provider.frozen_at == applied
    assert provider.frozen_at_time > 0
    chain.fetched.clear()
    chain.remove(b"1")
    chain.add(b"2", metadata=b"changed", addresses=("/dns4/moved.example/tcp/1",))
    unread = chain.add(b"3", hashes("3", 4), addresses=())
    await follow(indexer, chain)
    assert not any(await has(indexer, hashes("1", 4) + hashes("3", 4)))
    (found,) = await indexer.find(hashes("2", 1))
    assert found[0].metadata == b"changed"
    assert found[0].provider.addresses == ("/dns4/moved.example/tcp/1",)
    assert chain.fetched == [unread, chain.ads[3], chain.ads[2]], "entries are never fetched"
    assert indexer.provider(chain.id).frozen_at == applied
    assert indexer.provider(chain.id).last_ad == unread
    assert not await indexer.is_indexed(unread)
    assert await indexer.is_indexed(applied)
    await indexer.close()
    again = await opened(store, chain)
    assert again.status().is_frozen, "it survives a restart"
    assert again.provider(chain.id).frozen_at == applied
    await again.close()


async def test_a_frozen_indexer_passes_over_new_providers_and_still_honours_what_follows() -> None:
    chain = Chain()
    chain.add(b"1", hashes("1", 4))
    indexer = await opened(MemoryIndexStore(), chain)
    await follow(indexer, chain)
    await indexer.freeze()
    chain.add(b"x", hashes("x", 4), provider=key_of("new").peer_id)
    chain.remove(b"1")
    await follow(indexer, chain)
    assert [each.id for each in indexer.providers()] == [chain.id]
    assert not any(await has(indexer, hashes("1", 4)))
    await indexer.close()


@pytest.mark.parametrize("fills_after", range(1, 16))
async def test_a_freeze_between_any_two_chunks_loses_nothing(fills_after: int) -> None:
    """Frozen at the last advertisement applied in full; unfreezing goes on at the very block."""
    chain, store = Chain(), MemoryIndexStore()
    for name in "abc":
        chain.add(name.encode(), hashes(name, 12))
    everything = [each for name in "abc" for each in hashes(name, 12)]
    first = CrashingStore(store)
    indexer = await opened(first, chain, usage=SetUsage(fills_after=fills_after))
    await follow(indexer, chain)
    is_frozen = indexer.status().is_frozen
    whole = [name for name in "abc" if all(await has(indexer, hashes(name, 12)))]
    if is_frozen:
        known = indexer.providers()
        expected = chain.ads[len(whole) - 1] if whole else None
        assert [each.frozen_at for each in known] == [expected for _ in known]
    await indexer.close()
    second = CrashingStore(store)
    indexer = await opened(second, chain, settings=replace(SETTINGS, unfreeze_on_start=True))
    assert not indexer.status().is_frozen
    assert all(each.frozen_at is None for each in indexer.providers())
    await indexer.sync(chain.id)
    await indexer.wait_idle(chain.id)
    assert all(await has(indexer, everything))
    assert sorted(first.stored + second.stored) == sorted(everything), "and nothing is stored twice"
    await indexer.close()


async def test_unfreezing_is_refused_while_the_disk_is_full() -> None:
    chain, store = Chain(), MemoryIndexStore()
    indexer = await opened(store, chain)
    await indexer.freeze()
    await indexer.close()
    thawing = replace(SETTINGS, unfreeze_on_start=True)
    with pytest.raises(Conflict, match=r"cannot unfreeze: 95\.0 %"):
        await opened(store, chain, usage=SetUsage(95.0), settings=thawing)
    assert (await opened(store, chain)).status().is_frozen
    assert not (await opened(store, chain, settings=thawing)).status().is_frozen


async def test_removals_received_while_frozen_hold_after_unfreezing() -> None:
    chain, store = Chain(), MemoryIndexStore()
    chain.add(b"1", hashes("1", 4))
    indexer = await opened(store, chain)
    await follow(indexer, chain)
    await indexer.freeze()
    chain.add(b"2", hashes("2", 4))
    chain.remove(b"1")
    chain.add(b"3", hashes("3", 4))
    chain.remove(b"3")
    await follow(indexer, chain)
    await indexer.close()
    indexer = await opened(store, chain, settings=replace(SETTINGS, unfreeze_on_start=True))
    await indexer.sync(chain.id)
    await indexer.wait_idle(chain.id)
    assert await has(indexer, hashes("1", 1) + hashes("2", 1) + hashes("3", 1)) == [False, True, False]
    assert indexer.provider(chain.id).last_ad == chain.head
    await indexer.close()


async def test_freezing_can_be_turned_off() -> None:
    chain = Chain()
    chain.add(b"1", hashes("1", 4))
    indexer = await opened(
        MemoryIndexStore(), chain, usage=SetUsage(100.0), settings=replace(SETTINGS, freeze_at_percent=-1.0)
    )
    await follow(indexer, chain)
    assert all(await has(indexer, hashes("1", 4)))
    with pytest.raises(Invalid, match="freezing disabled"):
        await indexer.freeze()
    await indexer.close()


async def test_a_crash_while_freezing_leaves_it_frozen_or_not_but_never_between() -> None:
    chain = Chain()
    chain.add(b"1", hashes("1", 8))
    inner = MemoryIndexStore()
    indexer = await opened(inner, chain)
    await follow(indexer, chain)
    await indexer.close()
    store = CrashingStore(inner, crashes_at=0)
    indexer = await opened(store, chain)
    with pytest.raises(Exception, match="crashed"):
        await indexer.freeze()
    assert not indexer.status().is_frozen
    store.crashes_at = None
    chain.add(b"2", hashes("2", 8), metadata=METADATA)
    await follow(indexer, chain)
    assert all(await has(indexer, hashes("2", 8)))
    await indexer.close()
