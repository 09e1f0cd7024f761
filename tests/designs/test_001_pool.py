"""Document 001, "Indexer Scaling Design for Ingest-heavy Workload": the pool, sentence by sentence.

Real indexers and assigners over real HTTP; the choice of an indexer is tested in test_001_content_index.py.
"""

import pytest

from argosy.base.errors import Forbidden, Unauthorized
from argosy.ipni.assigner.configuration import Configuration, parse
from argosy.ipni.backends.memory import MemoryIndexStore
from argosy.ipni.indexer.service import IndexerService
from argosy.ipni.indexer_client import IndexerClient
from tests.ipni.assigner.site import add_entries, chains, site
from tests.ipni.indexer.stage import SetUsage, follow

# Basic requirements


async def test_indexers_are_added_at_any_time() -> None:
    """Must be able to add indexers at anytime to increase overall indexing capacity."""
    p, q = chains("p", "q")
    async with site(p, q) as it:
        await it.add("a")
        service = await it.assigner()
        first = add_entries(p, "one")
        await it.announce(service, p)
        await it.add("b")
        await service.reload(it.configuration())
        await it.poll(service)
        second = add_entries(q, "one")
        await it.announce(service, q)
        assert (await it.finders(first), await it.finders(second)) == (["a"], ["b"])


async def test_a_full_indexer_hands_off_even_a_single_publisher() -> None:
    """Any indexer node must gracefully hand-over work when it reaches capacity, even from a single data source."""
    (p,) = chains("p")
    async with site(p) as it:
        await it.add("a")
        service = await it.assigner()
        old = add_entries(p, "old")
        await it.announce(service, p)
        it.usages["a"].value = 91.0
        new = add_entries(p, "new")
        await it.announce(service, p)  # it freezes during ingestion
        assert (await it.clients["a"].status()).is_frozen
        await it.add("b")
        await service.reload(it.configuration())
        await it.poll(service)
        assert (await it.finders(old), await it.finders(new)) == (["a"], ["b"])


async def test_with_replication_a_lost_node_loses_no_data() -> None:
    """Must support optional data redundancy within indexer pool, to tolerate loss of node(s). […] With this, the loss
    or unavailability of an indexer does not result in the loss or unavailability of index data."""
    (p,) = chains("p")
    async with site(p) as it:
        for name in "abc":
            await it.add(name)
        service = await it.assigner(it.configuration(replication=2))
        multihash = add_entries(p, "one")
        await it.announce(service, p)
        first, second = await it.finders(multihash)
        await it.lose(first)
        assert await it.finders(multihash) == [second]


# The approach


async def test_each_indexer_reads_only_its_own_publishers() -> None:
    """assigning different content *publishers* to different indexer nodes, so that each node handles a separate portion
    of the ingestion work. […] Less syncing: no need for every indexer to sync with every publisher"""
    all_chains = chains("p", "q", "r", "s")
    async with site(*all_chains) as it:
        await it.add("a")
        await it.add("b")
        service = await it.assigner()
        marks = [add_entries(chain, "one") for chain in all_chains]
        await it.announce(service, *all_chains)
        assert await it.counts() == {"a": 2, "b": 2}
        assert [len(await it.finders(mark)) for mark in marks] == [1, 1, 1, 1]
        for chain in all_chains:
            assert len(chain.fetched) == len(set(chain.fetched)), "no advertisement is read twice"


async def test_full_indexers_overflow_into_the_remaining_ones() -> None:
    """When that indexer is full it overflows into other indexers. This can continue as long as there are more indexers
    available to continuing ingesting index data."""
    (p,) = chains("p")
    async with site(p) as it:
        await it.add("a")
        service = await it.assigner()
        marks = {}
        for name, following in zip("abc", "bcd", strict=True):
            marks[name] = add_entries(p, name)
            await it.announce(service, p)
            await it.add(following)
            await service.reload(it.configuration())
            await it.fill(name, service)
        marks["d"] = add_entries(p, "d")
        await it.announce(service, p)
        assert {name: await it.finders(mark) for name, mark in marks.items()} == {name: [name] for name in "abcd"}


async def test_reassigning_work_moves_no_data() -> None:
    """Ingestion work can be redistributed without having to move data between indexers. […] No data shared between
    indexers."""
    (p,) = chains("p")
    async with site(p) as it:
        await it.add("a")
        service = await it.assigner()
        add_entries(p, "old")
        await it.announce(service, p)
        await it.add("b")
        await service.reload(it.configuration())
        await it.fill("a", service)
        assert (await it.holders(p), (await it.indexers["b"].stats()).entries) == (["a", "b"], 0)


async def test_indexers_fill_at_different_times() -> None:
    """Indexers can have different storage capacities."""
    all_chains = chains("p", "q")
    async with site(*all_chains) as it:
        await it.add("small")
        await it.add("large")
        service = await it.assigner()
        for chain in all_chains:
            add_entries(chain, "old")
        await it.announce(service, *all_chains)
        await it.fill("small", service)
        marks = [add_entries(chain, "new") for chain in all_chains]
        await it.announce(service, *all_chains)
        assert [await it.finders(mark) for mark in marks] == [["large"], ["large"]]


async def test_a_new_indexer_does_not_affect_assigned_publishers() -> None:
    """Adding indexers has no effect until an existing indexer reaches storage limit."""
    all_chains = chains("p", "q", "r")
    async with site(*all_chains) as it:
        await it.add("a")
        service = await it.assigner()
        for chain in all_chains:
            add_entries(chain, "old")
        await it.announce(service, *all_chains)
        await it.add("b")
        await service.reload(it.configuration())
        for chain in all_chains:
            add_entries(chain, "new")
        await it.announce(service, *all_chains)
        await it.poll(service)
        assert await it.counts() == {"a": 3, "b": 0}
        await it.fill("a", service)
        assert await it.counts() == {"a": 3, "b": 3}


# Assigning


async def test_after_an_assignment_the_indexer_syncs_and_receives_announcements() -> None:
    """After assignment, a sync with the new publishers is started on the assigned indexers, and the indexers receive
    announcements from these publishers and handle ingestion themselves."""
    (p,) = chains("p")
    async with site(p) as it:
        await it.add("a")
        service = await it.assigner()
        first = add_entries(p, "one")
        await it.announce(service, p)
        assert await it.finders(first) == ["a"]
        second = add_entries(p, "two")
        await it.clients["a"].announce(p.announcement())
        await it.idle()
        assert await it.finders(second) == ["a"]


async def test_announcements_are_republished_to_the_publishers_indexers() -> None:
    """The AS also republishes direct HTTP announcements […], so that all indexers in the pool can receive them."""
    (p,) = chains("p")
    async with site(p) as it:
        for name in "abc":
            await it.add(name)
        service = await it.assigner(it.configuration(replication=2))
        add_entries(p, "one")
        await it.announce(service, p)
        mark = add_entries(p, "two")
        await it.announce(service, p)  # over HTTP here: indexers that may not ingest it are skipped
        assert await it.finders(mark) == await it.holders(p)


async def test_assignments_use_the_admin_api_which_requires_authorization() -> None:
    """The assignment is communicated to the chosen indexer via a request sent from the AS to the indexer on an
    administrative endpoint. […] would not be accessible to any unauthorized connection."""
    (p,) = chains("p")
    async with site(p) as it:
        await it.add("a")
        async with IndexerClient(it.url("a")) as unassigned:
            with pytest.raises(Unauthorized):
                await unassigned.assign(p.id)
        assert await it.counts() == {"a": 0}
        service = await it.assigner()
        add_entries(p, "one")
        await it.announce(service, p)
        assert await it.counts() == {"a": 1}


async def test_an_offline_indexer_is_queried_again_when_a_publisher_needs_assignment() -> None:
    """If any of the indexers in the AS pool are not online when the AS starts, the AS will retry querying any offline
    indexers on receiving an announce message with a publisher that needs assignment. […] This prevents over-assignment
    due to indexers going offline temporarily."""
    (p,) = chains("p")
    async with site(p) as it:
        await it.add("a")
        await it.add("b")
        it.unavailable.add("b")
        service = await it.assigner()
        first = add_entries(p, "one")
        await it.announce(service, p)
        assert await it.finders(first) == [], "the unreachable indexer may have it"
        it.unavailable.clear()
        second = add_entries(p, "two")
        await it.announce(service, p)
        assert await it.finders(first) == await it.finders(second)
        assert len(await it.finders(second)) == 1


async def test_a_returning_indexer_receives_missed_announcements() -> None:
    """An indexer node will handle the ingestion of all advertisements and multihash entries published by the publishers
    assigned to it."""
    (p,) = chains("p")
    async with site(p) as it:
        await it.add("a")
        service = await it.assigner()
        add_entries(p, "one")
        await it.announce(service, p)
        it.unavailable.add("a")
        add_entries(p, "two")
        await it.announce(service, p)
        mark = add_entries(p, "three")
        await it.announce(service, p)
        it.unavailable.clear()
        await it.poll(service)
        assert await it.finders(mark) == ["a"]


async def test_a_publisher_is_assigned_without_reading_its_advertisements() -> None:
    """Indexing data is not sharded by provider, because knowing the provider requires reading an advertisement. […] No
    need to read advertisements only to check provider"""
    (p,) = chains("p")
    async with site(p) as it:
        await it.add("a")
        await it.add("b")
        service = await it.assigner()
        add_entries(p, "one")
        p.is_down = True
        await it.announce(service, p)
        assert len(await it.holders(p)) == 1
        assert p.fetched == []


# Assigner without state


async def test_an_assigner_can_be_destroyed_and_replaced_without_impact() -> None:
    """The AS node can be destroyed and a new one started without any operational impact. […] Instead the state is
    rebuilt by querying indexers at startup."""
    all_chains = chains("p", "q", "r", "s")
    async with site(*all_chains) as it:
        await it.add("a")
        await it.add("b")
        service = await it.assigner()
        for chain in all_chains:
            add_entries(chain, "old")
        await it.announce(service, *all_chains)
        before = await it.assignments()
        await service.close()
        replaced = await it.assigner()
        marks = [add_entries(chain, "new") for chain in all_chains]
        await it.announce(replaced, *all_chains)
        assert await it.assignments() == before
        assert [len(await it.finders(mark)) for mark in marks] == [1, 1, 1, 1]


async def test_without_an_assigner_only_assigned_publishers_are_ingested() -> None:
    """If the AS is offline, indexers continue handling announcements from the assigned publishers and ingesting index
    data. Announcements from unassigned publishers are ignored until the AS is back online. […] The next announcement
    from an unassigned publisher is assigned to an indexer, and the indexer syncs all index data from that publisher."""
    known, unassigned = chains("known", "stranger")
    async with site(known, unassigned) as it:
        await it.add("a")
        service = await it.assigner()
        add_entries(known, "old")
        await it.announce(service, known)
        await service.close()
        mark, early = add_entries(known, "new"), add_entries(unassigned, "old")
        await it.clients["a"].announce(known.announcement())
        with pytest.raises(Forbidden):
            await it.clients["a"].announce(unassigned.announcement())
        await it.idle()
        assert (await it.finders(mark), await it.finders(early)) == (["a"], [])
        late = add_entries(unassigned, "new")
        await it.announce(await it.assigner(), unassigned)
        assert (await it.finders(early), await it.finders(late)) == (["a"], ["a"])


# Presets and preferences


async def test_preset_publishers_stay_within_their_list_after_a_freeze() -> None:
    """If a publisher exists in this map, that publisher is assigned to only the indexers listed for it. […] If an
    indexer with preset assignments becomes frozen, the publishers with preset indexers and only reassigned to other
    indexers within the preset list."""
    p, q = chains("p", "q")
    async with site(p, q) as it:
        for name in "abc":
            await it.add(name)
        presets = {"a": {p.id}, "b": {p.id}}
        service = await it.assigner(it.configuration(presets=presets, replication=3))
        for chain in (p, q):
            add_entries(chain, "one")
        await it.announce(service, p, q)
        (first,) = await it.holders(p)
        assert first in "ab"
        assert len(await it.holders(q)) == 3, "other publishers are still assigned to indexers of a preset list"
        await it.fill(first, service)
        assert await it.holders(p) == ["a", "b"]
        (second,) = {"a", "b"} - {first}
        await it.fill(second, service)
        assert await it.holders(p) == ["a", "b"], "and never to one outside it"
        assert p.id in service.pool_state.pending_handoffs()[it.url(second)]


async def test_an_indexer_that_joins_with_data_gets_its_publishers() -> None:
    """When that happens, the indexer will have no initial assignments, but it may have index data from its previous
    operation outside the pool. When queried by the AS, the indexer will inform that AS that it already has data from
    certain providers."""
    (p,) = chains("p")
    add_entries(p, "old")
    async with site(p) as it:
        store = MemoryIndexStore()
        outside = await IndexerService.open(store, it.sources, usage=SetUsage())
        await follow(outside, p)
        await outside.close()
        await it.add("empty")
        await it.add("old", store)
        assert await it.counts() == {"empty": 0, "old": 0}
        assert await it.clients["old"].preferred_publishers() == [p.id]
        add_entries(p, "new")
        await it.announce(await it.assigner(), p)
        assert await it.counts() == {"empty": 0, "old": 1}


# The pool's configuration


def test_the_configuration_has_urls_and_presets_per_indexer() -> None:
    """Each indexer information tells the AS the admin API URL, the find API URL, the ingest API URL, and any peer IDs
    for preset assignments to that indexer."""
    (p,) = chains("p")
    text = f"""{{"IndexerPool": [{{"AdminURL": "http://10.0.0.1:3002", "FindURL": "http://10.0.0.1:3000",
        "IngestURL": "http://10.0.0.1:3001", "PresetPeers": ["{p.id}"]}}]}}"""
    (entry,) = parse(text, Configuration()).entries
    assert (entry.admin_url, entry.find_url, entry.ingest_url, entry.presets) == (
        "http://10.0.0.1:3002",
        "http://10.0.0.1:3000",
        "http://10.0.0.1:3001",
        {p.id},
    )


async def test_data_of_a_removed_indexer_is_ingested_again_by_another() -> None:
    """This results in the removed indexer’s assignments getting assigned to a new indexers and those publishers’ data
    being ingested from the beginning."""
    (p,) = chains("p")
    async with site(p) as it:
        await it.add("a")
        service = await it.assigner()
        old = add_entries(p, "old")
        await it.announce(service, p)
        await it.add("b")
        await service.reload(it.configuration("b"))
        new = add_entries(p, "new")
        await it.announce(service, p)
        assert (await it.finders(old), await it.finders(new)) == (["a", "b"], ["b"])


async def test_an_indexer_frozen_before_removal_needs_no_reingestion() -> None:
    """To remove an indexer without having its assignments completely re-ingested by other indexers, first freeze the
    indexer administratively and allow its assignments to be handed off to other indexers, resuming ingestion from where
    the frozen indexer left off. Then remove the frozen indexer."""
    (p,) = chains("p")
    async with site(p) as it:
        await it.add("a")
        service = await it.assigner()
        old = add_entries(p, "old")
        await it.announce(service, p)
        await it.add("b")
        await service.reload(it.configuration())
        await it.fill("a", service)
        await service.reload(it.configuration("b"))
        new = add_entries(p, "new")
        p.fetched.clear()
        await it.announce(service, p)
        assert (await it.finders(old), await it.finders(new)) == (["a"], ["b"])
        assert p.ads[0] not in p.fetched
