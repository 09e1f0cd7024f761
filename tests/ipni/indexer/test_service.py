"""The indexer as a whole: announced content is found, in the right order, once, and survives faults."""

from dataclasses import replace

import pytest

from argosy.base.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from argosy.ipni.backends.memory import MemoryIndexStore
from argosy.ipni.formats.advertisement import AdvertisementExtension, AdvertisementPeer
from argosy.ipni.formats.cid import DAG_CBOR
from argosy.ipni.formats.multihash import of as multihash_of
from argosy.ipni.indexer.service import IndexerService
from argosy.ipni.model import Peer
from argosy.ipni.settings import IndexerSettings
from tests.ipni.indexer.stage import (
    ADDRESS,
    METADATA,
    SETTINGS,
    Chain,
    ChainSources,
    SetUsage,
    follow,
    has,
    hashes,
    key_of,
)


async def opened(
    *chains: Chain,
    store: MemoryIndexStore | None = None,
    settings: IndexerSettings = SETTINGS,
    usage: SetUsage | None = None,
) -> IndexerService:
    return await IndexerService.open(
        store or MemoryIndexStore(), ChainSources(*chains), settings=settings, usage=usage or SetUsage()
    )


async def test_announced_content_is_found() -> None:
    chain = Chain()
    ad = chain.add(b"context", hashes("a", 10))
    indexer = await opened(chain)
    await follow(indexer, chain)
    (find_providers,) = await indexer.find(hashes("a", 10)[7:8])
    assert [(each.context, each.metadata, each.provider) for each in find_providers] == [
        (b"context", METADATA, Peer(chain.id, (ADDRESS,)))
    ]
    assert await has(indexer, hashes("b", 1)) == [False]
    assert await indexer.is_indexed(ad)
    provider = indexer.provider(chain.id)
    assert provider.last_ad == ad
    assert provider.publisher == chain.peer
    await indexer.close()


async def test_a_chain_is_applied_oldest_first() -> None:
    chain = Chain()
    chain.add(b"x", hashes("x", 5), metadata=b"old")
    chain.add(b"x", metadata=b"new")
    indexer = await opened(chain)
    await follow(indexer, chain)
    (find_providers,) = await indexer.find(hashes("x", 1))
    assert [each.metadata for each in find_providers] == [b"new"]
    await indexer.close()


async def test_only_what_is_new_is_read_the_second_time() -> None:
    chain = Chain()
    chain.add(b"1", hashes("1", 5))
    indexer = await opened(chain)
    await follow(indexer, chain)
    chain.fetched.clear()
    newer = chain.add(b"2", hashes("2", 3))
    await follow(indexer, chain)
    assert chain.fetched[0] == newer
    assert len(chain.fetched) == 2
    assert all(await has(indexer, hashes("1", 5) + hashes("2", 3)))
    await indexer.close()


async def test_a_removal_affects_only_that_providers_context() -> None:
    chain = Chain()
    other = key_of("other").peer_id
    chain.add(b"same", hashes("mine", 4))
    chain.add(b"same", hashes("theirs", 4), provider=other)
    chain.remove(b"same")
    indexer = await opened(chain)
    await follow(indexer, chain)
    assert await has(indexer, hashes("mine", 4)) == [False] * 4
    assert await has(indexer, hashes("theirs", 4)) == [True] * 4
    await indexer.close()


async def test_entries_removed_later_in_the_chain_are_not_fetched() -> None:
    chain = Chain()
    chain.add(b"gone", hashes("gone", 4))
    chain.remove(b"gone")
    chain.add(b"gone", hashes("back", 4))
    indexer = await opened(chain)
    await follow(indexer, chain)
    assert len(chain.fetched) == 4, "three advertisements and the chunk of the last"
    assert await has(indexer, hashes("gone", 1) + hashes("back", 1)) == [False, True]
    await indexer.close()


async def test_a_repeated_announcement_causes_no_requests() -> None:
    chain = Chain()
    chain.add(b"1", hashes("1", 2))
    indexer = await opened(chain)
    await follow(indexer, chain)
    fetched = list(chain.fetched)
    await follow(indexer, chain)
    assert chain.fetched == fetched
    await indexer.close()


async def test_after_a_failed_sync_the_same_head_can_be_announced_again() -> None:
    chain = Chain(is_down=True)
    chain.add(b"1", hashes("1", 2))
    indexer = await opened(chain)
    await follow(indexer, chain)
    assert "does not answer" in str(indexer.sync_status(chain.id)[chain.id])
    chain.is_down = False
    await follow(indexer, chain)
    assert all(await has(indexer, hashes("1", 2)))
    await indexer.close()


async def test_a_transient_error_stops_the_chain_and_a_later_sync_continues_at_the_same_block() -> None:
    chain = Chain()
    chain.add(b"1", hashes("1", 12))
    chain.add(b"2", hashes("2", 4))
    last_chunk = chain.chunks(hashes("1", 12)[8:])
    chain.fails_on = {last_chunk}
    indexer = await opened(chain)
    await follow(indexer, chain)
    assert await has(indexer, hashes("1", 12)) == [True] * 8 + [False] * 4
    assert await has(indexer, hashes("2", 4)) == [False] * 4
    assert "does not answer" in indexer.provider(chain.id).last_error
    assert indexer.provider(chain.id).last_ad is None, "it has not been applied in full"
    chain.fails_on, chain.fetched = set(), []
    await follow(indexer, chain)
    assert chain.fetched[0] == last_chunk, "neither advertisements nor chunks are fetched again"
    assert all(await has(indexer, hashes("1", 12) + hashes("2", 4)))
    assert indexer.provider(chain.id).last_error == ""
    await indexer.close()


async def test_missing_entries_do_not_stop_the_chain() -> None:
    chain = Chain()
    chain.add(b"1", hashes("1", 4))
    del chain.blocks[chain.chunks(hashes("1", 4))]
    chain.add(b"2", hashes("2", 4))
    indexer = await opened(chain)
    await follow(indexer, chain)
    assert all(await has(indexer, hashes("2", 4)))
    (history,) = indexer.sync_status(chain.id)[chain.id]["ProcessingHistory"]  # type: ignore[index]
    assert history["ErrorCount"] == 1
    assert history["AdsProcessed"] == 2
    await indexer.close()


async def test_entries_without_metadata_are_passed_over() -> None:
    chain = Chain()
    chain.add(b"1", hashes("1", 4), metadata=b"")
    chain.add(b"2", hashes("2", 4))
    indexer = await opened(chain)
    await follow(indexer, chain)
    assert await has(indexer, hashes("1", 1) + hashes("2", 1)) == [False, True]
    await indexer.close()


async def test_entries_in_a_hamt_are_found() -> None:
    chain = Chain()
    chain.add(b"tree", entries=chain.hamt(hashes("h", 3000)))
    indexer = await opened(chain)
    await follow(indexer, chain)
    assert all(await has(indexer, hashes("h", 3000)))
    await indexer.close()


async def test_endless_entries_end_with_a_clear_status() -> None:
    chain = Chain()
    chain.add(b"long", hashes("l", 100), chunk=1)
    chain.add(b"next", hashes("n", 1))
    indexer = await opened(chain, settings=replace(SETTINGS, entries_depth_max=10))
    await follow(indexer, chain)
    assert await has(indexer, hashes("l", 100)) == [True] * 10 + [False] * 90
    assert all(await has(indexer, hashes("n", 1)))
    (history,) = indexer.sync_status(chain.id)[chain.id]["ProcessingHistory"]  # type: ignore[index]
    assert "more than 10 blocks" in history["LastError"]
    await indexer.close()


async def test_a_chain_longer_than_a_segment_is_read_completely() -> None:
    chain = Chain()
    for number in range(25):
        chain.add(str(number).encode(), hashes(str(number), 1))
    indexer = await opened(chain, settings=replace(SETTINGS, segment_ads=4, pending_bytes_max=6000))
    await follow(indexer, chain)
    assert all(await has(indexer, [multihash_of(f"{number}-0".encode()) for number in range(25)]))
    await indexer.close()


async def test_a_forged_advertisement_ends_the_sync_with_a_clear_status() -> None:
    chain, thief = Chain(), Chain("thief")
    thief.add(b"1", hashes("1", 1), provider=key_of("victim").peer_id)
    indexer = await opened(chain, thief, settings=replace(SETTINGS, publish=False))
    await follow(indexer, thief)
    assert "not allowed to publish for" in str(indexer.sync_status(thief.id))
    assert await has(indexer, hashes("1", 1)) == [False]
    await indexer.close()


async def test_a_blocked_publisher_is_rejected_and_an_allowed_one_accepted() -> None:
    chain = Chain()
    chain.add(b"1", hashes("1", 1))
    indexer = await opened(chain)
    indexer.block(chain.id)
    with pytest.raises(Forbidden, match="not allowed by policy"):
        await indexer.announce(chain.announcement())
    indexer.allow(chain.id)
    await follow(indexer, chain)
    assert all(await has(indexer, hashes("1", 1)))
    await indexer.close()


async def test_a_provider_without_an_address_silences_its_publisher() -> None:
    chain = Chain()
    chain.add(b"1", hashes("1", 1), addresses=())
    indexer = await opened(chain)
    await follow(indexer, chain)
    chain.add(b"2", hashes("2", 1), addresses=())
    with pytest.raises(Forbidden, match="without any address"):
        await indexer.announce(chain.announcement())
    assert indexer.providers() == []
    await indexer.close()


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_removed_provider_is_back_when_its_chain_is_announced_again(is_restarted: bool) -> None:
    """The content must come back without a resync, even after advertisements of other providers."""
    chain = Chain()
    other = key_of("other").peer_id
    chain.add(b"1", hashes("1", 3))
    chain.add(b"2", hashes("2", 3), provider=other)
    store = MemoryIndexStore()
    indexer = await opened(chain, store=store)
    await follow(indexer, chain)
    await indexer.remove_provider(chain.id)
    assert await has(indexer, hashes("1", 1) + hashes("2", 1)) == [False, True]
    with pytest.raises(NotFound):
        indexer.provider(chain.id)
    if is_restarted:
        await indexer.close()
        indexer = await opened(chain, store=store)
    chain.fetched.clear()
    await follow(indexer, chain)
    assert all(await has(indexer, hashes("1", 3) + hashes("2", 3)))
    assert chain.chunks(hashes("2", 3)) not in chain.fetched, "what is still there is not fetched again"
    await indexer.close()


async def test_an_old_head_announced_late_moves_nothing_back() -> None:
    chain = Chain()
    old = chain.add(b"1", hashes("1", 3))
    chain.add(b"2", hashes("2", 3))
    indexer = await opened(chain)
    await follow(indexer, chain)
    await indexer.announce(chain.announcement(old))
    await indexer.wait_idle(chain.id)
    await indexer.freeze()
    assert indexer.provider(chain.id).frozen_at == chain.head
    assert indexer.provider(chain.id).last_ad == chain.head
    await indexer.close()


async def test_a_freeze_while_gaps_are_open_lets_a_successor_read_all() -> None:
    """IPN-1: what was removed and is published again must be somewhere."""
    chain = Chain()
    other = key_of("other").peer_id
    chain.add(b"1", hashes("1", 3))
    chain.add(b"2", hashes("2", 3), provider=other)
    usage, store = SetUsage(), MemoryIndexStore()
    indexer = await opened(chain, usage=usage, store=store)
    await follow(indexer, chain)
    await indexer.remove_provider(chain.id)
    usage.value = 99.0
    await follow(indexer, chain)
    assert indexer.status().is_frozen
    assert indexer.provider(other).frozen_at is None
    await indexer.close()
    indexer = await opened(chain, store=store, settings=replace(SETTINGS, unfreeze_on_start=True))
    await indexer.sync(chain.id)
    await indexer.wait_idle(chain.id)
    assert all(await has(indexer, hashes("1", 3) + hashes("2", 3))), "nor is it lost here"
    await indexer.close()


async def test_extended_providers_replace_one_another() -> None:
    chain = Chain()
    chain.add(b"c", hashes("c", 1))
    chain.extend(["one", "two"])
    indexer = await opened(chain)

    async def find_providers() -> list[str]:
        await follow(indexer, chain)
        (results,) = await indexer.find(hashes("c", 1))
        return [each.provider.id for each in results]

    assert await find_providers() == [chain.id, key_of("one").peer_id, key_of("two").peer_id]
    chain.extend(["three"], b"c", is_override=True, metadata=METADATA)
    assert await find_providers() == [chain.id, key_of("three").peer_id]
    chain.add(b"c", metadata=b"other")
    assert await find_providers() == [chain.id, key_of("three").peer_id], "an advertisement without a set changes none"
    chain.extend([])
    assert await find_providers() == [chain.id]
    await indexer.close()


async def test_invalid_extended_providers_do_not_stop_the_chain() -> None:
    chain = Chain()
    one = key_of("one")
    chain.add(b"c", hashes("c", 1))
    chain.extend(["one"])
    chain.extend(["two"], is_override=True)  # an override without a context
    chain.add(b"gone", hashes("gone", 1))
    peers = (AdvertisementPeer(chain.id, (ADDRESS,), b""), AdvertisementPeer(one.peer_id, (), b""))
    chain.add(b"gone", metadata=b"", is_removal=True, extension=AdvertisementExtension(peers), extended_keys=[one])
    chain.add(b"last", hashes("last", 1))
    indexer = await opened(chain)
    await follow(indexer, chain)
    assert all(await has(indexer, hashes("last", 1)))
    (results,) = await indexer.find(hashes("c", 1))
    assert [each.provider.id for each in results] == [chain.id, one.peer_id]
    chain.add(b"", extension=AdvertisementExtension(peers), extended_keys=[one])  # one without an address
    await follow(indexer, chain)
    (results,) = await indexer.find(hashes("c", 1))
    assert [each.provider.id for each in results] == [chain.id]
    await indexer.close()


async def test_resync_applies_what_was_applied() -> None:
    chain, store = Chain(), MemoryIndexStore()
    chain.add(b"1", hashes("1", 3))
    chain.add(b"2", hashes("2", 3))
    indexer = await opened(chain, store=store)
    await follow(indexer, chain)
    await store.remove_context(chain.id, b"1")
    await store.remove_context(chain.id, b"2")
    await indexer.sync(chain.id, depth=1, is_resync=True)
    assert indexer.syncs() == [chain.id]
    with pytest.raises(Conflict):
        await indexer.sync(chain.id)
    await indexer.wait_idle(chain.id)
    assert await has(indexer, hashes("1", 1) + hashes("2", 1)) == [False, True]
    await indexer.sync(chain.id, is_resync=True)
    await indexer.wait_idle(chain.id)
    assert all(await has(indexer, hashes("1", 3) + hashes("2", 3)))
    await indexer.close()


async def test_a_manual_sync_fetches_the_head_of_the_publisher() -> None:
    chain = Chain()
    indexer = await opened(chain)
    with pytest.raises(Invalid, match="no address"):
        await indexer.sync(chain.id)
    await indexer.sync(chain.id, chain.peer.addresses[0])
    await indexer.wait_idle(chain.id)
    assert indexer.providers() == [], "it has published nothing"
    chain.add(b"1", hashes("1", 3))
    await indexer.sync(chain.id)
    await indexer.wait_idle(chain.id)
    assert all(await has(indexer, hashes("1", 3)))
    await indexer.close()


async def test_the_depth_of_the_first_sync_may_be_limited() -> None:
    chain = Chain()
    for number in range(5):
        chain.add(str(number).encode(), [multihash_of(str(number).encode())])
    indexer = await opened(chain, settings=replace(SETTINGS, first_depth=2))
    await follow(indexer, chain)
    assert await has(indexer, [multihash_of(str(number).encode()) for number in range(5)]) == [False] * 3 + [True] * 2
    await indexer.close()


async def test_an_advertisement_marked_as_processed_ends_the_reading() -> None:
    chain = Chain()
    chain.add(b"1", hashes("1", 1))
    indexer = await opened(chain)
    await follow(indexer, chain)
    middle = chain.add(b"2", hashes("2", 1))
    chain.add(b"3", hashes("3", 1))
    await indexer.mark_processed(chain.id, middle)
    await follow(indexer, chain)
    assert await has(indexer, hashes("1", 1) + hashes("2", 1) + hashes("3", 1)) == [True, False, True]
    await indexer.close()


async def test_chains_in_either_codec_are_read() -> None:
    chain = Chain()
    chain.add(b"1", entries=chain.chunks(hashes("1", 9), codec=DAG_CBOR), codec=DAG_CBOR)
    indexer = await opened(chain)
    await follow(indexer, chain)
    assert all(await has(indexer, hashes("1", 9)))
    await indexer.close()


async def test_double_hashed_lookups_lead_to_the_same_value() -> None:
    from argosy.ipni.formats import privacy

    chain = Chain()
    chain.add(b"secret", hashes("s", 3))
    indexer = await opened(chain, store=MemoryIndexStore(is_double_hashed=True))
    await follow(indexer, chain)
    wanted = hashes("s", 1)[0]
    (find_providers, nothing) = await indexer.find_encrypted(
        [privacy.second_hash(wanted), privacy.second_hash(b"\x12\x01a")]
    )
    assert nothing == ()
    value_key = privacy.decrypt_value_key(find_providers[0], wanted)
    assert privacy.split_value_key(value_key) == (chain.id, b"secret")
    metadata = await indexer.encrypted_metadata(privacy.value_key_hash(value_key))
    assert metadata is not None
    assert privacy.decrypt_metadata(metadata, value_key) == METADATA
    await indexer.close()


async def test_a_sample_is_of_the_context_and_repeats() -> None:
    chain = Chain()
    chain.add(b"1", hashes("1", 50))
    indexer = await opened(chain)
    await follow(indexer, chain)
    sample = await indexer.sample(chain.id, b"1", beacon=b"beacon", multihashes_max=5)
    assert 1 <= len(sample) <= 5
    assert set(sample) <= set(hashes("1", 50))
    assert sample == await indexer.sample(chain.id, b"1", beacon=b"beacon", multihashes_max=5)
    assert sample != await indexer.sample(chain.id, b"1", beacon=b"another", multihashes_max=5)
    await indexer.close()


async def test_a_provider_registers_new_addresses_in_order() -> None:
    import time

    chain = Chain()
    chain.add(b"1", hashes("1", 1))
    indexer = await opened(chain)
    await follow(indexer, chain)
    sequence = time.time_ns()
    await indexer.register(Peer(chain.id, ("/dns4/new.example/tcp/1",)), sequence)
    (find_providers,) = await indexer.find(hashes("1", 1))
    assert find_providers[0].provider.addresses == ("/dns4/new.example/tcp/1",)
    with pytest.raises(Invalid, match="not newer"):
        await indexer.register(Peer(chain.id, (ADDRESS,)), sequence)
    with pytest.raises(Invalid, match="from now"):
        await indexer.register(Peer(chain.id, (ADDRESS,)), 17)
    await indexer.close()


async def test_health_telemetry_and_figures() -> None:
    chain = Chain()
    chain.add(b"1", hashes("1", 6))
    indexer = await opened(chain)
    await follow(indexer, chain)
    await indexer.check_health()
    count, _, samples = indexer.telemetry()[chain.id]
    assert (count, samples) == (6, 2)
    assert indexer.telemetry() == {}
    assert (await indexer.stats()).entries == 6
    await indexer.close()


async def test_without_an_assigner_there_are_no_assignments() -> None:
    indexer = await opened()
    with pytest.raises(Unavailable, match="assigner"):
        await indexer.assign(key_of("x").peer_id)
    with pytest.raises(Unavailable, match="assigner"):
        indexer.assignments()
    await indexer.close()
