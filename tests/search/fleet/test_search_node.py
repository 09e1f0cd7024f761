"""A search node with real repositories: it builds, renews, verifies, hands over and evicts indexes."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from argosy.base.errors import Invalid, Unavailable
from argosy.base.tracing import Attribute, Span
from argosy.ownership.model import LeaseState, Unit
from argosy.registry import catalog
from argosy.search.fleet import telemetry
from argosy.search.fleet.model import Phase
from argosy.search.fleet.search_node import SearchNode
from argosy.search.index.wire import dump
from argosy.search.index_set import IndexSet
from argosy.search.settings import SearchSettings
from tests.search.fleet.fleet_fixture import MIB, SearchFleet, StubLeases, lease, until

SLOW = {"refresh_s": 3600.0, "verify_s": 3600.0}


def join_stub_leases(fleet: SearchFleet, node: SearchNode) -> StubLeases:
    held = StubLeases()
    node.join(held)
    return held


async def test_a_won_repository_is_fetched_indexed_searched_and_recorded(fleet: SearchFleet) -> None:
    commit = fleet.repo("a", code="def anchor(): pass\n").git("rev-parse", "HEAD")
    await fleet.spec("a")
    node = fleet.start(**SLOW)
    memory_bytes = await node.warm(lease("a"))
    assert await fleet.matching_repos("anchor") == ["a"]
    status = fleet.status("a")
    assert (status.phase, status.documents, status.memory_bytes) == (Phase.READY, 1, memory_bytes)
    assert [branch.version for branch in status.branches] == [commit]
    assert memory_bytes == node.held_bytes() > 0
    await until(lambda: fleet.row("a").last_commit)
    assert (fleet.row("a").last_commit, fleet.row("a").footprint_bytes) == (commit, memory_bytes)
    assert fleet.origins.open_sources == 0


async def test_a_dropped_repository_leaves_nothing_behind(fleet: SearchFleet) -> None:
    fleet.repo("a")
    await fleet.spec("a")
    node = fleet.start(**SLOW)
    await node.warm(lease("a"))
    await until(lambda: fleet.value(telemetry.INDEXES_PROVISIONED, how="built") == 1)
    assert b'repository="a"' in fleet.metrics["n1"].exposition()
    await node.drop(Unit("a"))
    assert (node.held_bytes(), node.statuses()) == (0, ())
    assert await fleet.matching_repos("name") == []
    assert b'repository="a"' not in fleet.metrics["n1"].exposition()


async def test_new_commits_are_found_while_the_old_index_answers(fleet: SearchFleet) -> None:
    repo = fleet.repo("a", code="def anchor(): pass\n")
    await fleet.spec("a")
    node = fleet.start(**SLOW)
    await node.warm(lease("a"))
    repo.commit({"more.py": b"def bowsprit(): pass\n"})
    fleet.origins.open.clear()
    node.notify_push("a")
    await until(lambda: fleet.status("a").is_refreshing)
    assert (await fleet.matching_repos("anchor"), await fleet.matching_repos("bowsprit")) == (["a"], [])
    fleet.origins.open.set()
    await until(lambda: fleet.value(telemetry.INDEXES_PROVISIONED, how="incremental") == 1)
    await until(lambda: fleet.status("a").documents == 2)
    assert await fleet.matching_repos("bowsprit") == ["a"]


async def test_an_origin_is_checked_periodically_and_nothing_is_built_without_need(fleet: SearchFleet) -> None:
    repo = fleet.repo("a")
    await fleet.spec("a")
    node = fleet.start(refresh_s=1.0, verify_s=3600.0)
    await node.warm(lease("a"))
    await until(lambda: fleet.origins.origin_checks)
    repo.commit({"more.py": b"def bowsprit(): pass\n"})
    await until(lambda: fleet.status("a").documents == 2)
    assert fleet.origins.fetches == ["a", "a"]


async def test_a_repository_that_cannot_be_fetched_is_refused_and_the_reason_recorded(fleet: SearchFleet) -> None:
    fleet.repo("a")
    await fleet.spec("a")
    fleet.origins.broken["a"] = Invalid("needs credentials for host: put them into the credentials file")
    node = fleet.start(**SLOW)
    with pytest.raises(Unavailable, match="needs credentials"):
        await node.warm(lease("a"))
    assert fleet.status("a").phase is Phase.FAILED
    await until(lambda: fleet.row("a").failures == 1)
    assert "needs credentials" in (fleet.row("a").last_error or "")
    await node.drop(Unit("a"))
    del fleet.origins.broken["a"]
    assert await node.warm(lease("a")) > 0
    await until(lambda: fleet.row("a").failures == 0)


async def test_an_unexpected_exception_is_a_failure_of_one_repository_only(fleet: SearchFleet) -> None:
    for name in ("a", "b"):
        fleet.repo(name)
        await fleet.spec(name)
    fleet.origins.broken["a"] = ZeroDivisionError("https://user:hunter2@host is odd")
    node = fleet.start(**SLOW)
    with pytest.raises(Unavailable, match="ZeroDivisionError") as refused:
        await node.warm(lease("a"))
    assert "hunter2" not in str(refused.value)
    assert await node.warm(lease("b")) > 0


async def test_a_failed_refresh_is_reported_and_succeeds_when_the_origin_is_back(fleet: SearchFleet) -> None:
    fleet.repo("a")
    await fleet.spec("a")
    node = fleet.start(**SLOW, retry_first_s=0.1)
    await node.warm(lease("a"))
    fleet.origins.broken["a"] = Unavailable("the origin is away")
    node.notify_push("a")
    await until(lambda: fleet.row("a").failures)
    assert (fleet.status("a").phase, fleet.status("a").reason) == (Phase.READY, "the origin is away")
    assert fleet.status("a").retry_at > 0
    del fleet.origins.broken["a"]
    await until(lambda: fleet.row("a").failures == 0)
    assert fleet.status("a").reason == ""


async def test_a_unit_lost_while_it_is_fetched_stops_the_fetch(fleet: SearchFleet) -> None:
    fleet.repo("a")
    await fleet.spec("a")
    node = fleet.start(**SLOW)
    fleet.origins.open.clear()
    warming = asyncio.ensure_future(node.warm(lease("a")))
    await until(lambda: fleet.origins.fetches)
    warming.cancel()
    await asyncio.gather(warming, return_exceptions=True)
    await node.drop(Unit("a"))
    fleet.origins.open.set()
    fleet.repo("b")
    await fleet.spec("b")
    await node.warm(lease("b"))
    assert [status.name for status in node.statuses()] == ["b"]
    assert await fleet.matching_repos("name") == ["b"]


async def test_changes_of_the_catalog_take_effect(fleet: SearchFleet) -> None:
    repo = fleet.repo("a", code="def anchor(): pass\n")
    repo.git("branch", "dev")
    await fleet.spec("a")
    node = fleet.start(**SLOW)
    await node.warm(lease("a"))
    await until(lambda: fleet.row("a").last_commit)
    await fleet.registry.run(catalog.pin("a", True))
    await until(lambda: fleet.status("a").is_pinned)
    await fleet.change("a", branches=("dev", "main"))
    await until(lambda: [branch.name for branch in fleet.status("a").branches] == ["dev", "main"])
    await fleet.registry.run(catalog.request_reindex("a"))
    await until(lambda: fleet.value(telemetry.INDEXES_PROVISIONED, how="built") == 2)
    await fleet.registry.run(catalog.remove("a"))
    await until(lambda: node.held_bytes() == 0)
    assert await fleet.matching_repos("anchor") == []


async def test_a_damaged_index_is_detected_and_rebuilt(fleet: SearchFleet) -> None:
    fleet.repo("a", code="def anchor(): pass\n")
    await fleet.spec("a")
    node = fleet.start(refresh_s=3600.0, verify_s=1.0)
    await node.warm(lease("a"))
    data = node.index_set.get("a").parts[0].segment.content.data
    data.flags.writeable = True
    data[4] ^= 1
    await until(lambda: fleet.value(telemetry.DAMAGED) == 1)
    await until(lambda: fleet.value(telemetry.INDEXES_PROVISIONED, how="built") == 2)
    await until(lambda: fleet.is_ready("a"))
    assert await fleet.matching_repos("anchor") == ["a"]


async def test_low_memory_evicts_the_coldest_index(fleet: SearchFleet) -> None:
    for name in "abc":
        fleet.repo(name)
        await fleet.spec(name)
    probe = fleet.start("probe", **SLOW)
    size = await probe.warm(lease("a"))
    node = fleet.start(**SLOW, budget_bytes=int(2.9 * size), high_watermark=0.9, low_watermark=0.5)
    held = join_stub_leases(fleet, node)
    for name in "ab":
        held.mine[Unit(name)] = lease(name)
        await node.warm(lease(name))
        node.record_searches([name])
    await node.warm(lease("c"))
    await until(lambda: held.released)
    assert held.released == [Unit("a"), Unit("b")][: len(held.released)]
    assert fleet.value(telemetry.EVICTIONS) == len(held.released)
    assert "evicted" in fleet.status("a").reason
    await node.drop(Unit("a"))
    assert await fleet.matching_repos("name") == ["b", "c"]


async def test_a_repository_larger_than_the_budget_is_refused_and_its_size_is_known(fleet: SearchFleet) -> None:
    fleet.repo("a")
    await fleet.spec("a")
    node = fleet.start(**SLOW, budget_bytes=1000)
    with pytest.raises(Unavailable, match=r"raise search\.budget_bytes"):
        await node.warm(lease("a"))
    await until(lambda: fleet.row("a").last_error)
    assert (fleet.row("a").footprint_bytes or 0) > 1000
    assert node.free_bytes() == 950


async def test_the_finished_index_is_received_from_the_node_that_has_it(fleet: SearchFleet) -> None:
    fleet.repo("a", code="def anchor(): pass\n")
    await fleet.spec("a")
    first, second = fleet.start("n1", **SLOW), fleet.start("n2", **SLOW)
    join_stub_leases(fleet, second).others = [lease("a", state=LeaseState.DRAINING)]
    await first.warm(lease("a"))
    await second.warm(lease("a", -1, "n2"))
    assert fleet.origins.fetches == ["a"]
    assert fleet.value(telemetry.INDEXES_PROVISIONED, "n2", how="received") == 1
    assert list(dump(second.index_set.get("a"))) == list(dump(first.index_set.get("a")))
    await until(lambda: fleet.origins.origin_checks)


async def test_an_index_that_the_other_node_cannot_send_is_built_here(fleet: SearchFleet) -> None:
    fleet.repo("a", code="def anchor(): pass\n")
    await fleet.spec("a")
    fleet.start("n1", **SLOW)
    second = fleet.start("n2", **SLOW)
    join_stub_leases(fleet, second).others = [lease("a", state=LeaseState.READY)]
    await second.warm(lease("a", 1, "n2"))
    assert fleet.value(telemetry.FAILURES, "n2", step="receive") == 1
    assert await fleet.matching_repos("anchor", "n2") == ["a"]


async def test_a_snapshot_brings_a_large_index_back_without_a_fetch(fleet: SearchFleet) -> None:
    repo = fleet.repo("a", code="def anchor(): pass\n")
    await fleet.spec("a")
    folder = fleet.folder / "snapshots"
    settings = {**SLOW, "snapshot_dir": str(folder), "snapshot_min_bytes": 1}
    node = fleet.start(**settings)
    await node.warm(lease("a"))
    await until(lambda: list(folder.glob("*.index")) and fleet.row("a").footprint_bytes)
    await fleet.stop("n1")
    again = fleet.start("n1", **settings)
    await again.warm(lease("a"))
    assert (fleet.origins.fetches, await fleet.matching_repos("anchor")) == (["a"], ["a"])
    assert fleet.value(telemetry.INDEXES_PROVISIONED, how="restored") == 1
    await fleet.stop("n1")
    repo.commit({"more.py": b"def bowsprit(): pass\n"})
    await fleet.start("n1", **settings).warm(lease("a"))
    assert (fleet.origins.fetches, await fleet.matching_repos("bowsprit")) == (["a", "a"], ["a"])
    await until(lambda: fleet.row("a").footprint_bytes and list(folder.glob("*.index")))
    await fleet.registry.run(catalog.remove("a"))
    await until(lambda: not list(folder.iterdir()))


async def test_an_unreachable_registry_does_not_keep_a_node_from_serving(fleet: SearchFleet) -> None:
    fleet.repo("a", code="def anchor(): pass\n")
    await fleet.spec("a")

    async def away(name: str, **changes: object) -> None:
        raise Unavailable("the registry is away")

    fleet.catalog.record_indexed = away  # type: ignore[method-assign]
    node = fleet.start(**SLOW)
    assert await node.warm(lease("a")) > 0
    assert await fleet.matching_repos("anchor") == ["a"]


class Spans:
    """Implements `Tracer`: keeps the names, the enclosing one first."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._open: list[str] = []

    @contextmanager
    def span(self, name: str, /, **attributes: Attribute) -> Iterator[Span]:
        self._open.append(name)
        self.seen.append("/".join(self._open))
        try:
            yield self
        finally:
            self._open.pop()

    def set(self, key: str, value: Attribute) -> None:
        self.seen.append(f"{key}={value}")

    def inject(self) -> dict[str, str]:
        return {"in": "/".join(self._open)}

    @contextmanager
    def extract(self, headers: Mapping[str, str]) -> Iterator[None]:
        before, self._open = self._open, [headers["in"]] if headers.get("in") else []
        try:
            yield
        finally:
            self._open = before


async def test_a_trace_shows_where_the_time_went(fleet: SearchFleet) -> None:
    fleet.repo("a")
    await fleet.spec("a")
    spans = Spans()
    with spans.span("warm"):
        await fleet.start(tracer=spans, **SLOW).warm(lease("a"))
    made = "warm/make index"
    assert spans.seen == ["warm", made, f"{made}/fetch", f"{made}/index", "how=built", f"{made}/serve"]


async def test_the_offered_capacity_never_exceeds_the_memory_limit_of_the_process(fleet: SearchFleet) -> None:
    class Probe:
        def free_bytes(self) -> int:
            return 10 * MIB

    index_set = IndexSet(threads=1)
    node = SearchNode(fleet.catalog, fleet.origins, index_set, node_id="n1", address="n1", memory=Probe())
    assert node.budget_bytes() == 7 * MIB
    assert node.free_bytes() == int(7 * MIB * 0.95)
    roomy = SearchNode(
        fleet.catalog,
        fleet.origins,
        index_set,
        node_id="n1",
        address="n1",
        memory=Probe(),
        settings=SearchSettings(budget_bytes=100 * MIB),
    )
    assert roomy.free_bytes() == 10 * MIB
    with pytest.raises(Invalid, match=r"set search\.budget_bytes"):
        SearchNode(fleet.catalog, fleet.origins, index_set, node_id="n1", address="n1")
    await node.close()
    await roomy.close()
    index_set.close()


async def test_a_stopping_node_answers_all_pending_requests(fleet: SearchFleet) -> None:
    fleet.repo("a")
    await fleet.spec("a")
    node = fleet.start(**SLOW)
    fleet.origins.open.clear()
    warming = asyncio.ensure_future(node.warm(lease("a")))
    await until(lambda: fleet.origins.fetches)
    await fleet.stop("n1")
    with pytest.raises(Unavailable, match="has stopped"):
        await warming
    with pytest.raises(Unavailable, match="has stopped"):
        await node.warm(lease("a"))
    await node.drop(Unit("a"))
    assert fleet.origins.open_sources == 0


# -- in a fleet ----------------------------------------------------------------------------------------------------


async def test_a_fleet_of_one_serves_its_catalog_and_unloads_removed_repositories(fleet: SearchFleet) -> None:
    for name in "abc":
        fleet.repo(name)
        await fleet.spec(name)
    node = fleet.start(in_fleet=True, **SLOW)
    await until(lambda: all(fleet.ownership["n1"].holds(Unit(name)) for name in "abc"))
    await until(lambda: all(fleet.is_ready(name) for name in "abc"))
    await fleet.registry.run(catalog.remove("b"))
    await until(lambda: [status.name for status in node.statuses()] == ["a", "c"])
    assert await fleet.matching_repos("name") == ["a", "c"]
    assert not fleet.ownership["n1"].holds(Unit("b"))


async def test_a_node_that_drains_hands_its_indexes_to_its_successor(fleet: SearchFleet) -> None:
    for name in "ab":
        fleet.repo(name)
        await fleet.spec(name)
    fleet.start("n1", in_fleet=True, **SLOW)
    await until(lambda: all(fleet.is_ready(name) for name in "ab"))
    fleet.start("n2", in_fleet=True, **SLOW)
    await until(lambda: len(fleet.ownership["n1"].members()) == 2)
    await fleet.ownership["n1"].drain()
    await until(lambda: all(fleet.ownership["n2"].holds(Unit(name)) for name in "ab"))
    assert fleet.origins.fetches in (["a", "b"], ["b", "a"])
    assert fleet.value(telemetry.INDEXES_PROVISIONED, "n2", how="received") == 2
    assert await fleet.matching_repos("name", "n2") == ["a", "b"]


async def test_a_replica_indexes_before_it_is_needed_and_takes_over(fleet: SearchFleet) -> None:
    fleet.repo("a")
    await fleet.spec("a", replicas=1)
    fleet.start("n1", in_fleet=True, **SLOW)
    fleet.start("n2", in_fleet=True, **SLOW)
    await until(lambda: fleet.is_ready("a", "n1") and fleet.is_ready("a", "n2"))
    await until(lambda: sorted(fleet.status("a", node).replica for node in ("n1", "n2")) == [0, 1])
    assert await fleet.matching_repos("name", "n1") == await fleet.matching_repos("name", "n2") == ["a"]
    first, second = sorted(("n1", "n2"), key=lambda node: fleet.status("a", node).replica)
    made = {how: fleet.value(telemetry.INDEXES_PROVISIONED, second, how=how) for how in ("built", "received")}
    await fleet.ownership[first].drain()
    await until(lambda: fleet.ownership[second].holds(Unit("a")))
    await until(lambda: fleet.status("a", second).replica == 0)
    assert {
        how: fleet.value(telemetry.INDEXES_PROVISIONED, second, how=how) for how in made
    } == made  # nothing was made


async def test_an_evicted_repository_is_open_to_other_nodes(fleet: SearchFleet) -> None:
    fleet.repo("a")
    fleet.repo("b")
    await fleet.spec("a")
    size = await fleet.start("probe", **SLOW).warm(lease("a"))
    fleet.start("n1", in_fleet=True, **SLOW, budget_bytes=int(1.8 * size))
    await until(lambda: fleet.is_ready("a", "n1"))
    await fleet.spec("b")
    await until(lambda: fleet.value(telemetry.EVICTIONS, "n1"))
    await until(lambda: len(fleet.nodes["n1"].statuses()) == 1)
    fleet.start("n2", in_fleet=True, **SLOW)
    await until(lambda: any(fleet.is_ready(name, "n2") for name in "ab"))
    here, there = fleet.nodes["n1"].statuses()[0].name, fleet.nodes["n2"].statuses()[0].name
    assert {here, there} == {"a", "b"}
