"""A search node with real repositories: job, renewing, checking, handing on and giving up indexes."""

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
from tests.search.fleet.harbour import MIB, Harbour, Held, lease, until

SLOW = {"refresh_s": 3600.0, "verify_s": 3600.0}


def held_by(harbour: Harbour, node: SearchNode) -> Held:
    held = Held()
    node.join(held)
    return held


async def test_a_won_repository_is_fetched_indexed_searched_and_recorded(harbour: Harbour) -> None:
    commit = harbour.repo("a", code="def anchor(): pass\n").git("rev-parse", "HEAD")
    await harbour.spec("a")
    node = harbour.start(**SLOW)
    memory_bytes = await node.warm(lease("a"))
    assert await harbour.found("anchor") == ["a"]
    status = harbour.status("a")
    assert (status.phase, status.documents, status.memory_bytes) == (Phase.READY, 1, memory_bytes)
    assert [branch.version for branch in status.branches] == [commit]
    assert memory_bytes == node.held_bytes() > 0
    await until(lambda: harbour.row("a").last_commit)
    assert (harbour.row("a").last_commit, harbour.row("a").footprint_bytes) == (commit, memory_bytes)
    assert harbour.origins.reading == 0


async def test_a_dropped_repository_leaves_nothing_behind(harbour: Harbour) -> None:
    harbour.repo("a")
    await harbour.spec("a")
    node = harbour.start(**SLOW)
    await node.warm(lease("a"))
    await until(lambda: harbour.value(telemetry.INDEXES_PROVISIONED, how="built") == 1)
    assert b'repository="a"' in harbour.metrics["n1"].exposition()
    await node.drop(Unit("a"))
    assert (node.held_bytes(), node.statuses()) == (0, ())
    assert await harbour.found("name") == []
    assert b'repository="a"' not in harbour.metrics["n1"].exposition()


async def test_new_commits_are_found_while_the_old_index_answers(harbour: Harbour) -> None:
    repo = harbour.repo("a", code="def anchor(): pass\n")
    await harbour.spec("a")
    node = harbour.start(**SLOW)
    await node.warm(lease("a"))
    repo.commit({"more.py": b"def bowsprit(): pass\n"})
    harbour.origins.open.clear()
    node.notify_push("a")
    await until(lambda: harbour.status("a").is_refreshing)
    assert (await harbour.found("anchor"), await harbour.found("bowsprit")) == (["a"], [])
    harbour.origins.open.set()
    await until(lambda: harbour.value(telemetry.INDEXES_PROVISIONED, how="incremental") == 1)
    await until(lambda: harbour.status("a").documents == 2)
    assert await harbour.found("bowsprit") == ["a"]


async def test_an_origin_is_checked_periodically_and_nothing_is_built_without_need(harbour: Harbour) -> None:
    repo = harbour.repo("a")
    await harbour.spec("a")
    node = harbour.start(refresh_s=1.0, verify_s=3600.0)
    await node.warm(lease("a"))
    await until(lambda: harbour.origins.origin_checks)
    repo.commit({"more.py": b"def bowsprit(): pass\n"})
    await until(lambda: harbour.status("a").documents == 2)
    assert harbour.origins.fetches == ["a", "a"]


async def test_a_repository_that_cannot_be_fetched_is_refused_and_the_reason_recorded(harbour: Harbour) -> None:
    harbour.repo("a")
    await harbour.spec("a")
    harbour.origins.broken["a"] = Invalid("needs credentials for host: put them into the credentials file")
    node = harbour.start(**SLOW)
    with pytest.raises(Unavailable, match="needs credentials"):
        await node.warm(lease("a"))
    assert harbour.status("a").phase is Phase.FAILED
    await until(lambda: harbour.row("a").failures == 1)
    assert "needs credentials" in (harbour.row("a").last_error or "")
    await node.drop(Unit("a"))
    del harbour.origins.broken["a"]
    assert await node.warm(lease("a")) > 0
    await until(lambda: harbour.row("a").failures == 0)


async def test_an_unexpected_exception_is_a_failure_of_one_repository_only(harbour: Harbour) -> None:
    for name in ("a", "b"):
        harbour.repo(name)
        await harbour.spec(name)
    harbour.origins.broken["a"] = ZeroDivisionError("https://user:hunter2@host is odd")
    node = harbour.start(**SLOW)
    with pytest.raises(Unavailable, match="ZeroDivisionError") as refused:
        await node.warm(lease("a"))
    assert "hunter2" not in str(refused.value)
    assert await node.warm(lease("b")) > 0


async def test_a_failed_refresh_is_reported_and_succeeds_when_the_origin_is_back(harbour: Harbour) -> None:
    harbour.repo("a")
    await harbour.spec("a")
    node = harbour.start(**SLOW, retry_first_s=0.1)
    await node.warm(lease("a"))
    harbour.origins.broken["a"] = Unavailable("the origin is away")
    node.notify_push("a")
    await until(lambda: harbour.row("a").failures)
    assert (harbour.status("a").phase, harbour.status("a").reason) == (Phase.READY, "the origin is away")
    assert harbour.status("a").retry_at > 0
    del harbour.origins.broken["a"]
    await until(lambda: harbour.row("a").failures == 0)
    assert harbour.status("a").reason == ""


async def test_a_unit_lost_while_it_is_fetched_stops_the_fetch(harbour: Harbour) -> None:
    harbour.repo("a")
    await harbour.spec("a")
    node = harbour.start(**SLOW)
    harbour.origins.open.clear()
    warming = asyncio.ensure_future(node.warm(lease("a")))
    await until(lambda: harbour.origins.fetches)
    warming.cancel()
    await asyncio.gather(warming, return_exceptions=True)
    await node.drop(Unit("a"))
    harbour.origins.open.set()
    harbour.repo("b")
    await harbour.spec("b")
    await node.warm(lease("b"))
    assert [status.name for status in node.statuses()] == ["b"]
    assert await harbour.found("name") == ["b"]


async def test_changes_of_the_catalog_take_effect(harbour: Harbour) -> None:
    repo = harbour.repo("a", code="def anchor(): pass\n")
    repo.git("branch", "dev")
    await harbour.spec("a")
    node = harbour.start(**SLOW)
    await node.warm(lease("a"))
    await until(lambda: harbour.row("a").last_commit)
    await harbour.registry.run(catalog.pin("a", True))
    await until(lambda: harbour.status("a").is_pinned)
    await harbour.change("a", branches=("dev", "main"))
    await until(lambda: [branch.name for branch in harbour.status("a").branches] == ["dev", "main"])
    await harbour.registry.run(catalog.request_reindex("a"))
    await until(lambda: harbour.value(telemetry.INDEXES_PROVISIONED, how="built") == 2)
    await harbour.registry.run(catalog.remove("a"))
    await until(lambda: node.held_bytes() == 0)
    assert await harbour.found("anchor") == []


async def test_a_damaged_index_is_detected_and_rebuilt(harbour: Harbour) -> None:
    harbour.repo("a", code="def anchor(): pass\n")
    await harbour.spec("a")
    node = harbour.start(refresh_s=3600.0, verify_s=1.0)
    await node.warm(lease("a"))
    data = node.index_set.get("a").parts[0].segment.content.data
    data.flags.writeable = True
    data[4] ^= 1
    await until(lambda: harbour.value(telemetry.DAMAGED) == 1)
    await until(lambda: harbour.value(telemetry.INDEXES_PROVISIONED, how="built") == 2)
    await until(lambda: harbour.is_ready("a"))
    assert await harbour.found("anchor") == ["a"]


async def test_low_memory_evicts_the_coldest_index(harbour: Harbour) -> None:
    for name in "abc":
        harbour.repo(name)
        await harbour.spec(name)
    probe = harbour.start("probe", **SLOW)
    size = await probe.warm(lease("a"))
    node = harbour.start(**SLOW, budget_bytes=int(2.9 * size), high_watermark=0.9, low_watermark=0.5)
    held = held_by(harbour, node)
    for name in "ab":
        held.mine[Unit(name)] = lease(name)
        await node.warm(lease(name))
        node.record_searches([name])
    await node.warm(lease("c"))
    await until(lambda: held.released)
    assert held.released == [Unit("a"), Unit("b")][: len(held.released)]
    assert harbour.value(telemetry.EVICTIONS) == len(held.released)
    assert "evicted" in harbour.status("a").reason
    await node.drop(Unit("a"))
    assert await harbour.found("name") == ["b", "c"]


async def test_a_repository_larger_than_the_budget_is_refused_and_its_size_is_known(harbour: Harbour) -> None:
    harbour.repo("a")
    await harbour.spec("a")
    node = harbour.start(**SLOW, budget_bytes=1000)
    with pytest.raises(Unavailable, match=r"raise search\.budget_bytes"):
        await node.warm(lease("a"))
    await until(lambda: harbour.row("a").last_error)
    assert (harbour.row("a").footprint_bytes or 0) > 1000
    assert node.free_bytes() == 950


async def test_the_finished_index_is_received_from_the_node_that_has_it(harbour: Harbour) -> None:
    harbour.repo("a", code="def anchor(): pass\n")
    await harbour.spec("a")
    first, second = harbour.start("n1", **SLOW), harbour.start("n2", **SLOW)
    held_by(harbour, second).others = [lease("a", state=LeaseState.DRAINING)]
    await first.warm(lease("a"))
    await second.warm(lease("a", -1, "n2"))
    assert harbour.origins.fetches == ["a"]
    assert harbour.value(telemetry.INDEXES_PROVISIONED, "n2", how="received") == 1
    assert list(dump(second.index_set.get("a"))) == list(dump(first.index_set.get("a")))
    await until(lambda: harbour.origins.origin_checks)


async def test_an_index_that_the_other_node_cannot_send_is_built_here(harbour: Harbour) -> None:
    harbour.repo("a", code="def anchor(): pass\n")
    await harbour.spec("a")
    harbour.start("n1", **SLOW)
    second = harbour.start("n2", **SLOW)
    held_by(harbour, second).others = [lease("a", state=LeaseState.READY)]
    await second.warm(lease("a", 1, "n2"))
    assert harbour.value(telemetry.FAILURES, "n2", step="receive") == 1
    assert await harbour.found("anchor", "n2") == ["a"]


async def test_a_snapshot_brings_a_large_index_back_without_a_fetch(harbour: Harbour) -> None:
    repo = harbour.repo("a", code="def anchor(): pass\n")
    await harbour.spec("a")
    folder = harbour.folder / "snapshots"
    settings = {**SLOW, "snapshot_dir": str(folder), "snapshot_min_bytes": 1}
    node = harbour.start(**settings)
    await node.warm(lease("a"))
    await until(lambda: list(folder.glob("*.index")) and harbour.row("a").footprint_bytes)
    await harbour.stop("n1")
    again = harbour.start("n1", **settings)
    await again.warm(lease("a"))
    assert (harbour.origins.fetches, await harbour.found("anchor")) == (["a"], ["a"])
    assert harbour.value(telemetry.INDEXES_PROVISIONED, how="restored") == 1
    await harbour.stop("n1")
    repo.commit({"more.py": b"def bowsprit(): pass\n"})
    await harbour.start("n1", **settings).warm(lease("a"))
    assert (harbour.origins.fetches, await harbour.found("bowsprit")) == (["a", "a"], ["a"])
    await until(lambda: harbour.row("a").footprint_bytes and list(folder.glob("*.index")))
    await harbour.registry.run(catalog.remove("a"))
    await until(lambda: not list(folder.iterdir()))


async def test_an_unreachable_registry_does_not_keep_a_node_from_serving(harbour: Harbour) -> None:
    harbour.repo("a", code="def anchor(): pass\n")
    await harbour.spec("a")

    async def away(name: str, **noted: object) -> None:
        raise Unavailable("the registry is away")

    harbour.catalog.record_indexed = away  # type: ignore[method-assign]
    node = harbour.start(**SLOW)
    assert await node.warm(lease("a")) > 0
    assert await harbour.found("anchor") == ["a"]


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


async def test_a_trace_shows_where_the_time_went(harbour: Harbour) -> None:
    harbour.repo("a")
    await harbour.spec("a")
    spans = Spans()
    with spans.span("warm"):
        await harbour.start(tracer=spans, **SLOW).warm(lease("a"))
    made = "warm/make index"
    assert spans.seen == ["warm", made, f"{made}/fetch", f"{made}/index", "how=built", f"{made}/serve"]


async def test_the_offered_capacity_never_exceeds_the_memory_limit_of_the_process(harbour: Harbour) -> None:
    class Probe:
        def free_bytes(self) -> int:
            return 10 * MIB

    shelf = IndexSet(threads=1)
    node = SearchNode(harbour.catalog, harbour.origins, shelf, node_id="n1", address="n1", memory=Probe())
    assert node.budget_bytes() == 7 * MIB
    assert node.free_bytes() == int(7 * MIB * 0.95)
    roomy = SearchNode(
        harbour.catalog,
        harbour.origins,
        shelf,
        node_id="n1",
        address="n1",
        memory=Probe(),
        settings=SearchSettings(budget_bytes=100 * MIB),
    )
    assert roomy.free_bytes() == 10 * MIB
    with pytest.raises(Invalid, match=r"set search\.budget_bytes"):
        SearchNode(harbour.catalog, harbour.origins, shelf, node_id="n1", address="n1")
    await node.close()
    await roomy.close()
    shelf.close()


async def test_a_stopping_node_answers_all_pending_requests(harbour: Harbour) -> None:
    harbour.repo("a")
    await harbour.spec("a")
    node = harbour.start(**SLOW)
    harbour.origins.open.clear()
    warming = asyncio.ensure_future(node.warm(lease("a")))
    await until(lambda: harbour.origins.fetches)
    await harbour.stop("n1")
    with pytest.raises(Unavailable, match="has stopped"):
        await warming
    with pytest.raises(Unavailable, match="has stopped"):
        await node.warm(lease("a"))
    await node.drop(Unit("a"))
    assert harbour.origins.reading == 0


# -- in a fleet ----------------------------------------------------------------------------------------------------


async def test_a_fleet_of_one_serves_its_catalog_and_unloads_removed_repositories(harbour: Harbour) -> None:
    for name in "abc":
        harbour.repo(name)
        await harbour.spec(name)
    node = harbour.start(in_fleet=True, **SLOW)
    await until(lambda: all(harbour.ownership["n1"].holds(Unit(name)) for name in "abc"))
    await until(lambda: all(harbour.is_ready(name) for name in "abc"))
    await harbour.registry.run(catalog.remove("b"))
    await until(lambda: [status.name for status in node.statuses()] == ["a", "c"])
    assert await harbour.found("name") == ["a", "c"]
    assert not harbour.ownership["n1"].holds(Unit("b"))


async def test_a_node_that_drains_hands_its_indexes_to_its_successor(harbour: Harbour) -> None:
    for name in "ab":
        harbour.repo(name)
        await harbour.spec(name)
    harbour.start("n1", in_fleet=True, **SLOW)
    await until(lambda: all(harbour.is_ready(name) for name in "ab"))
    harbour.start("n2", in_fleet=True, **SLOW)
    await until(lambda: len(harbour.ownership["n1"].members()) == 2)
    await harbour.ownership["n1"].drain()
    await until(lambda: all(harbour.ownership["n2"].holds(Unit(name)) for name in "ab"))
    assert harbour.origins.fetches in (["a", "b"], ["b", "a"])
    assert harbour.value(telemetry.INDEXES_PROVISIONED, "n2", how="received") == 2
    assert await harbour.found("name", "n2") == ["a", "b"]


async def test_a_replica_indexes_before_it_is_needed_and_takes_over(harbour: Harbour) -> None:
    harbour.repo("a")
    await harbour.spec("a", replicas=1)
    harbour.start("n1", in_fleet=True, **SLOW)
    harbour.start("n2", in_fleet=True, **SLOW)
    await until(lambda: harbour.is_ready("a", "n1") and harbour.is_ready("a", "n2"))
    await until(lambda: sorted(harbour.status("a", node).replica for node in ("n1", "n2")) == [0, 1])
    assert await harbour.found("name", "n1") == await harbour.found("name", "n2") == ["a"]
    first, second = sorted(("n1", "n2"), key=lambda node: harbour.status("a", node).replica)
    made = {how: harbour.value(telemetry.INDEXES_PROVISIONED, second, how=how) for how in ("built", "received")}
    await harbour.ownership[first].drain()
    await until(lambda: harbour.ownership[second].holds(Unit("a")))
    await until(lambda: harbour.status("a", second).replica == 0)
    assert {
        how: harbour.value(telemetry.INDEXES_PROVISIONED, second, how=how) for how in made
    } == made  # nothing was made


async def test_an_evicted_repository_is_open_to_other_nodes(harbour: Harbour) -> None:
    harbour.repo("a")
    harbour.repo("b")
    await harbour.spec("a")
    size = await harbour.start("probe", **SLOW).warm(lease("a"))
    harbour.start("n1", in_fleet=True, **SLOW, budget_bytes=int(1.8 * size))
    await until(lambda: harbour.is_ready("a", "n1"))
    await harbour.spec("b")
    await until(lambda: harbour.value(telemetry.EVICTIONS, "n1"))
    await until(lambda: len(harbour.nodes["n1"].statuses()) == 1)
    harbour.start("n2", in_fleet=True, **SLOW)
    await until(lambda: any(harbour.is_ready(name, "n2") for name in "ab"))
    here, there = harbour.nodes["n1"].statuses()[0].name, harbour.nodes["n2"].statuses()[0].name
    assert {here, there} == {"a", "b"}
