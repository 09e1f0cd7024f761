"""An assigner and real indexers over real HTTP: publishers are assigned and handed over, and all stays findable."""

from pathlib import Path

import pytest

from argosy.base.errors import Conflict, Forbidden, Invalid, NotFound, Unauthorized, Unavailable
from argosy.ipni.backends.memory import MemoryIndexStore
from argosy.ipni.backends.rocks import RocksStore
from argosy.ipni.indexer.service import IndexerService
from argosy.ipni.indexer_client import IndexerClient
from argosy.ipni.model import Assignment
from argosy.ipni.settings import IndexerSettings
from tests.ipni.assigner.site import site
from tests.ipni.indexer.stage import Chain, SetUsage, hashes, key_of


async def test_publishers_are_spread_ingested_and_known_to_a_new_assigner() -> None:
    chains = [Chain(f"publisher{n}") for n in range(4)]
    async with site(*chains) as it:
        await it.add("a")
        await it.add("b")
        service = await it.assigner()
        for chain in chains:
            chain.add(b"one", hashes(chain.name, 5))
            await it.announce(service, chain)
        assert {name: len(found) for name, found in (await it.assignments()).items()} == {"a": 2, "b": 2}
        assert [len(await it.finders(hashes(chain.name, 1)[0])) for chain in chains] == [1, 1, 1, 1]
        await service.close()
        replaced = await it.assigner()
        before = await it.assignments()
        for chain in chains:
            chain.add(b"two", hashes(f"{chain.name} more", 5))
            await it.announce(replaced, chain)
        assert await it.assignments() == before
        assert [len(await it.finders(hashes(f"{chain.name} more", 1)[0])) for chain in chains] == [1, 1, 1, 1]


async def test_publishers_of_a_frozen_indexer_continue_elsewhere_and_nothing_is_read_twice() -> None:
    """Both go on processing advertisements, but only the second stores new ones; together they answer for all."""
    chain = Chain("publisher")
    old, new = hashes("old", 5), hashes("new", 5)
    async with site(chain) as it:
        await it.add("a")
        await it.add("b")
        service = await it.assigner(it.configuration("a"))
        chain.add(b"old", old)
        await it.announce(service, chain)
        await service.reload(it.configuration())
        await it.clients["a"].freeze()
        await it.poll(service)
        assert await it.assignments() == {
            "a": [Assignment(chain.id)],
            "b": [Assignment(chain.id, it.indexers["a"].status().id)],
        }
        chain.fetched.clear()
        chain.add(b"new", new)
        await it.announce(service, chain)
        assert (await it.finders(old[0]), await it.finders(new[0])) == (["a"], ["b"])
        assert not set(chain.fetched) & {chain.ads[0]}
        chain.remove(b"old")
        await it.announce(service, chain)
        assert await it.finders(old[0]) == []  # the frozen one gets it too, and honours removals


async def test_an_assigner_that_is_replaced_after_a_handoff_repeats_nothing() -> None:
    chain = Chain("publisher")
    async with site(chain) as it:
        for name in "abc":
            await it.add(name)
        service = await it.assigner(it.configuration("a"))
        chain.add(b"old", hashes("old", 3))
        await it.announce(service, chain)
        await service.reload(it.configuration("a", "b"))
        it.usages["a"].value = 95.0
        await it.indexers["a"].freeze()
        await it.poll(service)
        await service.close()
        replaced = await it.assigner()
        chain.add(b"new", hashes("new", 3))
        await it.announce(replaced, chain)
        await it.poll(replaced)
        assert [len(found) for found in (await it.assignments()).values()] == [1, 1, 0]
        assert await it.finders(hashes("new", 1)[0]) == ["b"]


async def test_all_providers_of_a_publisher_are_handed_on() -> None:
    chain = Chain("publisher")
    other = key_of("another provider").peer_id
    async with site(chain) as it:
        await it.add("a")
        service = await it.assigner()
        chain.add(b"own", hashes("own", 2))
        chain.add(b"other", hashes("other", 2), provider=other)
        await it.announce(service, chain)
        await it.clients["a"].freeze()
        await it.poll(service)
        assert len(service.pool_state.pending_handoffs()[it.entries["a"].admin_url]) == 1
        await it.add("b")
        await service.reload(it.configuration())
        await it.poll(service)
        assert {each.id for each in await it.clients["b"].providers()} == {chain.id, other}
        chain.add(b"more", hashes("more", 2), provider=other)
        await it.announce(service, chain)
        assert await it.finders(hashes("more", 1)[0]) == ["b"]


async def test_replication_is_restored_when_an_indexer_has_left_the_pool() -> None:
    chain = Chain("publisher")
    async with site(chain) as it:
        for name in "abc":
            await it.add(name)
        service = await it.assigner(it.configuration(replication=2))
        chain.add(b"old", hashes("old", 3))
        await it.announce(service, chain)
        holding = await it.finders(hashes("old", 1)[0])
        assert len(holding) == 2
        await service.reload(it.configuration(*(name for name in "abc" if name != holding[0]), replication=2))
        chain.add(b"new", hashes("new", 3))
        await it.announce(service, chain)
        assert len(await it.finders(hashes("new", 1)[0])) == 2
        assert len(await it.finders(hashes("old", 1)[0])) == 3  # ingested from the beginning by the new one


async def test_assignments_survive_an_indexer_restart_and_are_removed_by_hand(tmp_path: Path) -> None:
    chain = Chain("publisher")
    chain.add(b"old", hashes("old", 3))
    async with site(chain) as it:
        store = await RocksStore.open(tmp_path / "index")
        await it.add("a", store)
        await it.announce(await it.assigner(), chain)
        await it.indexers["a"].close()
        await store.close()
    async with site(chain) as it:
        store = await RocksStore.open(tmp_path / "index")
        await it.add("a", store)
        service = await it.assigner()
        assert service.pool_state.audience(chain.id) == (it.entries["a"].admin_url,)
        assert await it.finders(hashes("old", 1)[0]) == ["a"]
        await it.clients["a"].unassign(chain.id)
        await service.poll()
        assert service.pool_state.audience(chain.id) == ()
        with pytest.raises(NotFound):
            await it.clients["a"].unassign(chain.id)
        await it.indexers["a"].close()
        await store.close()


async def test_an_indexer_that_has_data_from_before_is_preferred() -> None:
    chain = Chain("publisher")
    chain.add(b"old", hashes("old", 3))
    async with site(chain) as it:
        store = MemoryIndexStore()
        before = await IndexerService.open(store, it.sources, usage=SetUsage())
        await before.announce(chain.announcement())
        await before.wait_idle(chain.id)
        await before.close()
        await it.add("a")
        await it.add("b", store)
        assert await it.clients["b"].preferred_publishers() == [chain.id]
        service = await it.assigner()
        assert service.pool_state.report(it.entries["b"].admin_url) is not None
        await it.announce(service, chain)
        assert await it.assignments() == {"a": [], "b": [Assignment(chain.id)]}


async def test_rejections_keep_their_error_type() -> None:
    chain = Chain("publisher")
    async with site(chain) as it:
        await it.add("a")
        client = it.clients["a"]
        await client.assign(chain.id)
        with pytest.raises(Invalid, match="400"):
            await client.assign(chain.id)
        with pytest.raises(Forbidden):
            await client.announce(Chain("stranger").announcement(chain.add(b"x", hashes("x", 1))))
        await client.freeze()
        with pytest.raises(Conflict, match="frozen"):
            await client.assign(key_of("somebody").peer_id)
        url = it.entries["a"].find_url
        with pytest.raises(Conflict, match="frozen"):
            await client.handoff(key_of("somebody").peer_id, frozen_id=key_of("x").peer_id, frozen_url=url)
        async with IndexerClient(it.entries["a"].admin_url) as stranger:
            with pytest.raises(Unauthorized):
                await stranger.status()


async def test_every_operator_request_is_answered() -> None:
    chain = Chain("publisher")
    async with site(chain) as it:
        await it.add("a", settings=IndexerSettings())
        client = it.clients["a"]
        chain.add(b"old", hashes("old", 3))
        await client.announce(chain.announcement())
        await it.indexers["a"].wait_idle(chain.id)
        await client.check_health()
        assert chain.head is not None
        assert await client.is_indexed(chain.head)
        assert (await client.provider(chain.id)).last_ad == chain.head
        found = await client.find(hashes("old", 1)[0])
        assert [(each.provider.id, each.context) for each in found] == [(chain.id, b"old")]
        assert await client.find(hashes("unknown", 1)[0]) == ()
        assert chain.id in await client.sync_status()
        assert (await client.telemetry())[chain.id][0] == 3
        assert (await client.stats()).entries >= 0
        await client.sync(chain.id, is_resync=True)
        await it.indexers["a"].wait_idle(chain.id)
        assert await client.syncs() == []
        await client.mark_processed(chain.id, chain.head)
        await client.block(chain.id)
        with pytest.raises(Forbidden):
            await client.announce(chain.announcement(chain.add(b"new", hashes("new", 1))))
        await client.allow(chain.id)
        with pytest.raises(Unavailable, match="without a settings file"):  # this one has no settings file
            await client.reload()
        await client.remove_provider(chain.id)
        with pytest.raises(NotFound):
            await client.provider(chain.id)
        await it.add("b", settings=IndexerSettings())
        await it.clients["b"].import_providers(it.entries["a"].find_url)
        assert await it.clients["b"].providers() == []
