"""Document 001, "Indexer Scaling Design for Ingest-heavy Workload": handoffs and what follows, sentence by sentence."""

import asyncio
from contextlib import suppress

import pytest

from argosy.base.errors import Forbidden, NotFound
from argosy.ipni.backends.memory import MemoryIndexStore
from argosy.ipni.model import Assignment
from argosy.ipni.settings import IndexerSettings
from tests.ipni.assigner.doubles import until
from tests.ipni.assigner.site import add_entries, chains, site
from tests.ipni.indexer.stage import METADATA, hashes
from tests.ipni.indexer.test_maintenance import HandClock

# Handoff


async def test_the_assigner_polls_for_frozen_indexers_at_its_interval() -> None:
    """The AS periodically polls indexers, on a configurable interval, to check if any have become frozen."""
    (p,) = chains("p")
    async with site(p) as it:
        await it.add("a")
        clock = HandClock()
        service = it.assigner_unasked(it.configuration(poll_s=30.0), clock=clock)
        running = asyncio.ensure_future(service.run())
        await until(service.is_ready)
        add_entries(p, "old")
        await it.announce(service, p)
        await it.clients["a"].freeze()
        await clock.pass_(29)
        assert not service.pool_state.pending_handoffs()
        await clock.pass_(1)
        await until(lambda: service.pool_state.pending_handoffs().get(it.url("a")) == (p.id,))
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def test_the_successor_receives_providers_and_extended_providers() -> None:
    """During handoff, the active indexer also gets provider and extended provider information from the frozen
    indexer."""
    (p,) = chains("p")
    async with site(p) as it:
        await it.add("a")
        service = await it.assigner()
        add_entries(p, "old")
        p.extend(["friend"], b"\xff\xfe", metadata=METADATA)
        await it.announce(service, p)
        await it.add("b")
        await service.reload(it.configuration())
        await it.fill("a", service)
        theirs, ours = await it.clients["a"].provider(p.id), await it.clients["b"].provider(p.id)
        assert ours.extended == theirs.extended
        assert b"\xff\xfe" in ours.extended.contexts
        assert ours.addresses == theirs.addresses


async def test_frozen_assignments_do_not_count_and_a_handoff_replaces_them() -> None:
    """The AS does not count assignments on frozen indexers. If there is a replication factor of two and an indexer
    becomes frozen, then the replica count for the publishers assigned to the frozen indexer drops by one (after
    completing handoff). Completing handoff satisfies the replication factor since each publisher is assigned to another
    available indexer."""
    (p,) = chains("p")
    async with site(p) as it:
        for name in "abc":
            await it.add(name)
        service = await it.assigner(it.configuration(replication=2))
        add_entries(p, "old")
        await it.announce(service, p)
        first, second = await it.holders(p)
        (third,) = set("abc") - {first, second}
        await it.fill(first, service)
        mark = add_entries(p, "new")
        await it.announce(service, p)
        assert not service.pool_state.is_short(p.id)
        assert await it.finders(mark) == sorted([second, third])


async def test_a_pending_handoff_completes_when_a_target_is_available() -> None:
    """Incomplete handoff my occur due to insufficient indexers to accept handoff, indexers being off-line, or the AS
    going offline before handoff is complete. […] At startup, the AS determines if any handoff is incomplete and tries
    to complete it."""
    p, q = chains("p", "q")
    async with site(p, q) as it:
        await it.add("a")
        service = await it.assigner()
        for chain in (p, q):
            add_entries(chain, "old")
        await it.announce(service, p, q)
        await it.fill("a", service)
        assert set(service.pool_state.pending_handoffs()[it.url("a")]) == {p.id, q.id}
        await service.close()
        await it.add("b")
        frozen_id = it.indexers["a"].status().id
        await it.clients["b"].handoff(
            p.id, frozen_id=frozen_id, frozen_url=it.url("a")
        )  # the progress of the first assigner
        replaced = await it.assigner()
        assert (await it.assignments())["b"] == sorted(
            [Assignment(p.id, frozen_id), Assignment(q.id, frozen_id)], key=lambda each: each.publisher
        )
        assert replaced.pool_state.pending_handoffs() == {it.url("a"): ()}


async def test_a_publisher_a_full_indexer_never_ingested_is_ingested_elsewhere() -> None:
    """When an indexer reaches its configured storage limit, it stops ingesting new index data, and other indexers in
    the pool resume ingesting data from the publishers assigned to the full indexer."""
    (p,) = chains("p")
    async with site(p) as it:
        await it.add("a")
        service = await it.assigner()
        it.usages["a"].value = 95.0
        mark = add_entries(p, "one")
        await it.announce(service, p)
        assert (await it.holders(p), await it.finders(mark)) == (["a"], [])
        await it.add("b")
        await service.reload(it.configuration())
        await it.poll(service)
        assert await it.finders(mark) == ["b"]


async def test_frozen_and_active_indexers_together_serve_the_whole_chain() -> None:
    """If a publisher publishes ads A to Z and indexer-1 becomes full after ingestion of ad D, then indexer-1 is frozen
    and indexer-2 takes over and starts ingesting at E. […] Both indexer-1 and indexer-2 continue processing
    advertisements, but only indexer-2 stores new index data. […] The frozen indexer-1 does not fetch any entries
    associated with the advertisements."""
    (p,) = chains("p")
    async with site(p) as it:
        await it.add("1")
        service = await it.assigner()
        marks = {letter: add_entries(p, letter) for letter in "ABCD"}
        await it.announce(service, p)
        it.usages["1"].value = 90.0
        marks |= {letter: add_entries(p, letter) for letter in "EFGHIJKLM"}
        p.fetched.clear()
        await it.announce(service, p)
        assert not set(p.fetched) - set(p.ads), "no entries"
        await it.add("2")
        await service.reload(it.configuration())
        await it.poll(service)
        marks |= {letter: add_entries(p, letter) for letter in "NOPQRSTUVWXYZ"}
        await it.announce(service, p)
        finders = {letter: await it.finders(mark) for letter, mark in marks.items()}
        assert finders == {letter: ["1"] if letter in "ABCD" else ["2"] for letter in marks}
        p.remove(b"B")
        p.remove(b"Y")
        await it.announce(service, p)
        assert (await it.finders(marks["B"]), await it.finders(marks["Y"])) == ([], [])
        assert (await it.clients["1"].provider(p.id)).last_ad == p.head


async def test_handed_off_publishers_stay_handed_off_after_an_unfreeze() -> None:
    """Taking an indexer out of “frozen” mode, may result in resuming ingestion from publishers that are now assigned to
    other indexers, which could cause unnecessary duplication of index data."""
    (p,) = chains("p")
    async with site(p) as it:
        store = MemoryIndexStore()
        await it.add("a", store)
        service = await it.assigner()
        add_entries(p, "old")
        await it.announce(service, p)
        await it.add("b")
        await service.reload(it.configuration())
        await it.fill("a", service)
        mark = add_entries(p, "new")
        await it.announce(service, p)
        assert await it.finders(mark) == ["b"]
        await it.lose("a")
        await it.add("a", store, IndexerSettings(use_assigner=True, unfreeze_on_start=True))
        await service.reload(it.configuration())
        await it.poll(service)  # picked up at the next poll, without a restart
        assert sorted(service.pool_state.audience(p.id)) == sorted([it.url("a"), it.url("b")])
        twice = add_entries(p, "twice")
        await it.announce(service, p)
        assert sorted(await it.finders(twice)) == ["a", "b"]


# Questions and answers


async def test_only_the_number_of_publishers_counts_not_the_free_space() -> None:
    """The amount of storage remaining does not factor into the decision since freeze-handoff will redistribute
    ingestion anyway."""
    p, q = chains("p", "q")
    async with site(p, q) as it:
        await it.add("empty")
        await it.add("nearly full")
        service = await it.assigner(it.configuration("empty"))
        add_entries(p, "one")
        await it.announce(service, p)
        it.usages["nearly full"].value = 89.0
        await service.reload(it.configuration())
        await it.poll(service)
        add_entries(q, "one")
        await it.announce(service, q)
        assert await it.holders(q) == ["nearly full"]


async def test_a_provider_with_a_new_publisher_is_ingested_again() -> None:
    """If this happens then an indexer node will start ingesting the entire ad chain from the new publisher, even though
    another indexer already has that same provider’s ad chain."""
    old, new = chains("old", "new")
    provider = old.id
    async with site(old, new) as it:
        await it.add("a")
        await it.add("b")
        service = await it.assigner()
        old.add(b"c", hashes("same", 5))
        await it.announce(service, old)
        new.add(b"c", hashes("same", 5), provider=provider)
        await it.announce(service, new)
        assert await it.finders(hashes("same", 1)[0]) == ["a", "b"]
        held = [await it.indexers[name].find(hashes("same", 1)) for name in "ab"]
        assert held[0] == held[1], "both return the same record of one provider"


async def test_data_of_a_lost_frozen_indexer_is_lost_without_replication() -> None:
    """The data on A is lost, and the replication factor should have been set to > 1 to avoid that."""
    for replication, finders in ((1, 0), (2, 1)):
        (p,) = chains("p")
        async with site(p) as it:
            await it.add("a")
            await it.add("x")
            names = ("a",) if replication == 1 else ("a", "x")
            service = await it.assigner(it.configuration(*names, replication=replication))
            mark = add_entries(p, "old")
            await it.announce(service, p)
            await it.add("b")
            await service.reload(it.configuration("a", "b", "x", replication=replication))
            await it.fill("a", service)
            await it.lose("a")
            assert len(await it.finders(mark)) == finders


async def test_after_removal_of_an_indexer_its_publishers_are_assigned_on_announce() -> None:
    """Remove A without freezing it first. If new announces arrive for the publishers on A, then those will be assigned
    at that time, unless blocked by policy."""
    p, q = chains("p", "q")
    async with site(p, q) as it:
        await it.add("a")
        service = await it.assigner()
        for chain in (p, q):
            add_entries(chain, "old")
        await it.announce(service, p, q)
        await it.add("b")
        await service.reload(it.configuration("b", exceptions=frozenset({q.id})))
        await it.poll(service)
        assert (await it.counts())["b"] == 0
        add_entries(p, "new")
        await it.announce(service, p)
        assert (await it.counts())["b"] == 1
        add_entries(q, "new")
        with pytest.raises(Forbidden):
            service.announce(q.announcement())
        with pytest.raises(NotFound):
            await it.clients["b"].provider(q.id)
