"""Document 000, "In-memory serving fleet": from a claim to an index that is served, kept, evicted and handed off.

Each test quotes what it proves. Sentences proved by another test, with real processes and servers, are quoted beside
that test's name, and the name is checked to exist.
"""

import ast
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from argosy.base.metrics import declared_metrics
from argosy.ownership.model import Unit
from argosy.search.fleet.effects import Release, Save, UnloadIndex, VerifyIndex
from argosy.search.fleet.events import IndexVerified
from argosy.search.fleet.model import Phase
from argosy.search.model import MissingReason
from argosy.search.settings import SearchSettings
from argosy.sim.fleet import run_fleet
from argosy.sim.report import FleetPlan, FleetReport
from tests.search.fleet.controller_fixture import MIB, ControllerFixture, of_kind, only
from tests.search.fleet.fleet_fixture import SearchFleet, lease, open_search_fleet, until
from tests.search.fleet.node_fixture import search_request

ROOT = Path(__file__).parents[2]
SLOW = {"refresh_s": 3600.0, "verify_s": 3600.0}

PROVED_ELSEWHERE = {
    "Avoid persistent shard artifacts: no object store, no disk-based shard persistence required for normal operation.":
        "tests/search/fleet/test_search_node.py::test_a_dropped_repository_leaves_nothing_behind",
    "Support safe failover: when a node dies, another node can re-claim and reindex the repo.":
        "tests/journeys/test_search_fleet.py::test_no_response_is_wrong_during_failures_and_changes",
    "Optional shared git mirror/cache: speeds up clones and reduces external git server load.":
        "tests/search/backends/test_remote_mirrors.py::test_concurrent_fetches_of_one_repository_are_coalesced",
    "node determines latest commit (catalog or git server)":
        "tests/search/fleet/test_search_node.py::test_an_origin_is_checked_periodically_and_nothing_is_built_without_need",
    "node performs a shallow clone (or uses mirror cache) and runs the indexer to build the in-memory index.":
        "tests/search/backends/test_remote.py::test_a_repository_is_fetched_under_its_requested_name",
    "Queries are routed to the owner.":
        "tests/gateway/test_service.py::test_every_node_gets_one_request_with_the_repositories_that_can_match",
    "If owner is not ready, the caller gets a \"warming\" response":
        "tests/gateway/test_service.py::test_a_repository_without_a_serving_node_is_listed_with_the_reason",
    "or is routed to a fallback/replica if available.":
        "tests/gateway/test_service.py::test_a_node_that_refuses_is_replaced_by_a_replica",
    "use a small routing tier or a lightweight service discovery that reads the catalog to map repo -> owner.":
        "tests/gateway/test_watches.py::test_results_follow_leases_and_the_catalog",
    "Drain flow: node sets repo state to draining, finishes in-flight queries":
        "tests/search/fleet/test_local_node.py::test_dropping_waits_for_requests_in_flight",
    "optionally streams index to a new owner (advanced), then releases claim.":
        "tests/search/fleet/test_search_node.py::test_a_node_that_drains_hands_its_indexes_to_its_successor",
    "Evicted repos are released in the catalog so other nodes can claim and reindex them.":
        "tests/journeys/test_search_fleet_memory.py::test_repositories_over_budget_are_evicted_and_claimed_by_a_node_with_free_memory",
    "Eviction policy: LRU by last-served time":
        "tests/search/fleet/test_eviction.py::test_the_least_recently_served_are_evicted_first_and_no_more_than_needed",
    "or a custom cost metric (size × traffic).":
        "tests/search/fleet/test_eviction.py::test_by_cost_the_largest_for_its_traffic_is_evicted_first",
    "provide a mechanism to mark specific repos as pinned (non-evictable) when needed.":
        "tests/registry/test_catalog.py::test_a_repository_is_pinned_and_a_reindex_requested",
    "Scale-up triggers: high count of unclaimed repos":
        "tests/ownership/test_autoscale.py::test_a_backlog_of_open_units_requires_nodes",
    "high average claim latency": "tests/ownership/test_autoscale.py::test_long_waits_for_a_holder_require_a_node",
    "or CPU/memory saturation across the fleet.":
        "tests/ownership/test_autoscale.py::test_memory_in_use_requires_nodes_in_proportion",
    "Scale-down: sustained low claim count and low CPU":
        "tests/ownership/test_autoscale.py::test_no_node_is_named_for_draining_before_the_fleet_has_been_calm",
    "perform graceful drain before terminating nodes":
        "tests/ownership/test_autoscale.py::test_a_node_is_removable_only_when_it_is_no_member_and_holds_nothing",
    "Placement: prefer replica placement close to [...] client traffic for lower latency.":
        "tests/gateway/test_load_balancer.py::test_the_faster_node_is_picked",
    "Replicas index proactively and stand ready to serve if primary fails.":
        "tests/search/fleet/test_search_node.py::test_a_replica_indexes_before_it_is_needed_and_takes_over",
    "Mitigation: keep local persistent repo mirror or use shallow fetch to speed reindex.":
        "tests/search/backends/test_remote.py::test_a_new_commit_is_seen_and_fetched_into_the_mirror",
    "Thundering reindex after outage: [...] limit concurrent reindexes per node.":
        "tests/search/fleet/test_index_queue.py::test_a_slot_is_taken_until_the_job_has_ended_even_after_it_was_stopped",
    "Corrupted in-memory index: detect via checksums or simple health checks":
        "tests/search/fleet/test_search_node.py::test_a_damaged_index_is_detected_and_rebuilt",
    "use shared mirrors or per-node persistent cache to avoid repeated full clones.":
        "tests/search/backends/test_remote.py::test_nothing_is_fetched_when_nothing_is_new",
    "Secrets: store git credentials securely":
        "tests/search/backends/test_remote_credentials.py::test_a_secret_is_in_no_argument_no_error_and_no_log",
    "nodes use short-lived tokens to access repos.":
        "tests/search/backends/test_remote_credentials.py::test_a_command_runs_again_after_its_credentials_were_rejected",
    "Tracing across clone → index → serve is critical.":
        "tests/search/fleet/test_search_node.py::test_a_trace_shows_where_the_time_went",
    "Run a simulation with 500 fixture repos of varying sizes to tune TTLs, clone/parallelism, and autoscaling":
        "tests/sim/test_fleet.py::test_two_runs_in_two_interpreters_give_the_same_bytes",
    "optional snapshotting to disk for very large repos to speed rehydration on restart":
        "tests/search/fleet/test_search_node.py::test_a_snapshot_brings_a_large_index_back_without_a_fetch",
}  # fmt: skip


@cache
def _tests_in(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize(("sentence", "proof"), PROVED_ELSEWHERE.items())
def test_the_referenced_test_exists(sentence: str, proof: str) -> None:
    file, _, name = proof.partition("::")
    assert name in _tests_in(file), f"no test proves: {sentence}"


@pytest.fixture
async def search_fleet(tmp_path: Path) -> AsyncIterator[SearchFleet]:
    async with open_search_fleet(tmp_path) as search_fleet:
        yield search_fleet


async def test_a_claimed_repo_is_indexed_and_served(search_fleet: SearchFleet) -> None:
    """Node discovers a claimable repo in the catalog and attempts to claim it. [...] Node marks the repo row as ready
    and begins serving queries for that repo."""
    commit = search_fleet.repo("a", code="def anchor(): pass\n").git("rev-parse", "HEAD")
    await search_fleet.spec("a")
    search_fleet.start("n1", in_fleet=True, **SLOW)
    await until(lambda: search_fleet.ownership["n1"].holds(Unit("a")) and search_fleet.is_ready("a"))
    answer = await search_fleet.local_nodes["n1"].search(search_request("anchor", "a"))
    assert [file.repository for file in answer.files] == ["a"]
    assert answer.missing == ()
    await until(lambda: search_fleet.row("a").last_commit == commit)


async def test_an_existing_index_is_reused(search_fleet: SearchFleet) -> None:
    """checks local cache for a matching in-memory index. If no valid in-memory index exists, node performs a shallow
    clone"""
    search_fleet.repo("a")
    await search_fleet.spec("a")
    node = search_fleet.start(**SLOW)
    size = await node.warm(lease("a", replica=1))
    assert await node.warm(lease("a")) == size
    assert search_fleet.origins.fetches == ["a"]


async def test_a_query_during_the_first_build_gets_a_warming_response(search_fleet: SearchFleet) -> None:
    """If owner is not ready, the caller gets a "warming" response"""
    search_fleet.repo("a")
    await search_fleet.spec("a")
    search_fleet.origins.open.clear()
    search_fleet.start("n1", in_fleet=True, **SLOW)
    await until(lambda: search_fleet.origins.fetches)
    answer = await search_fleet.local_nodes["n1"].search(search_request("name", "a"))
    assert [(each.repository, each.why) for each in answer.missing] == [("a", MissingReason.WARMING)]
    assert search_fleet.status("a").phase is Phase.FETCHING
    search_fleet.origins.open.set()
    await until(lambda: search_fleet.is_ready("a"))


def test_the_budget_is_configurable_and_enforced() -> None:
    """Each node maintains a configurable memory budget for in-memory indices."""
    fixture = ControllerFixture(budget_bytes=100 * MIB, **SLOW)
    for name in "abc":
        fixture.make_ready(name, 30 * MIB)
    assert fixture.controller.memory.held_bytes == 90 * MIB
    assert fixture.controller.free_bytes() == 5 * MIB  # up to the high watermark
    evicted = of_kind(fixture.make_ready("d", 30 * MIB), Release)
    assert evicted
    assert all(release.is_eviction for release in evicted)
    assert SearchSettings(budget_bytes=7).budget_bytes == 7


def test_pinned_repos_are_never_evicted() -> None:
    """Pinning: provide a mechanism to mark specific repos as pinned (non-evictable) when needed."""
    fixture = ControllerFixture(budget_bytes=100 * MIB, **SLOW)
    fixture.make_ready("pinned", 50 * MIB, is_pinned=True)
    fixture.make_ready("loose", 40 * MIB)
    fixture.now += 1000.0  # neither was searched
    released = of_kind(fixture.make_ready("new", 30 * MIB), Release)
    assert [each.name for each in released] == ["loose"]


def test_a_corrupted_index_is_rebuilt_from_its_source() -> None:
    """if corrupted, reindex from source."""
    fixture = ControllerFixture(verify_s=600.0, refresh_s=1e6)
    fixture.make_ready()
    check = only(fixture.wait(1000.0), VerifyIndex)
    effects = fixture.handle(IndexVerified(check.number, is_sound=False))
    assert only(effects, UnloadIndex).name == "a"  # it is not served meanwhile
    assert not fixture.complete_fetch(effects).is_incremental  # and no part of it is reused


def test_the_metrics_match_the_document() -> None:
    """Observability: per-repo and per-node metrics (index_time_ms, memory_bytes, last_served_at, claim_latency)."""
    labels = {metric.name: metric.labels for metric in declared_metrics()}
    for name in ("index_time_ms", "index_memory_bytes", "last_served_at", "repository_claim_latency_seconds"):
        assert labels[f"argosy_{name}"] == ("repository",)
    assert {"argosy_search_held_bytes", "argosy_search_budget_bytes", "argosy_claim_latency_seconds"} <= labels.keys()


def test_very_large_indexes_are_kept_on_disk_only_when_asked_for() -> None:
    """optional snapshotting to disk for very large repos [...] (still optional, outside normal ops)"""
    assert SearchSettings().snapshot_dir is None
    assert not of_kind(ControllerFixture(budget_bytes=1 << 40).make_ready("a", 100 << 30), Save)


@pytest.fixture(scope="module")
def fleet() -> FleetReport:
    return run_fleet(FleetPlan(repos=15, nodes=4, seed=1, headroom=4.0, ttl_s=5.0, window_s=5.0, commits=0.2))


def test_a_fleet_holds_many_repos_together(fleet: FleetReport) -> None:
    """Run an autoscalable fleet of instances that collectively hold indexes for many repos. Each repo is owned and
    served by one (or more) nodes in memory."""
    assert fleet.is_settled
    assert fleet.violations == ()
    assert fleet.owned[-1][1:] == (15, 15)


def test_the_repos_of_a_dead_node_are_claimed_and_indexed_again(fleet: FleetReport) -> None:
    """Node crash: lease expiry allows another node to claim and reindex."""
    assert fleet.failover.repos > 0
    assert fleet.provisioned.built >= 15 + fleet.failover.repos


def test_a_drained_node_streams_its_indexes_without_downtime(fleet: FleetReport) -> None:
    """so others can take over immediately"""
    assert fleet.drain.repos > 0
    assert fleet.drain.unserved == 0
    assert fleet.provisioned.received >= fleet.drain.repos


def test_an_eviction_releases_the_lease_and_others_claim_it(fleet: FleetReport) -> None:
    """Add per-node in-memory cache with eviction and a safe release flow (release catalog row on eviction)."""
    assert fleet.evictions.reclaims == fleet.evictions.evictions > 0


def test_a_single_node_claims_everything() -> None:
    """Implement a minimal catalog API and a single-node claiming simulation to validate claim/lease semantics and
    reindex timings."""
    alone = run_fleet(FleetPlan(repos=5, nodes=1, kill=0, ttl_s=5.0, window_s=5.0))
    assert alone.is_settled
    assert (alone.provisioned.built, alone.moves) == (5, 0)


def test_replicas_avoid_reindexing() -> None:
    """Replication increases memory usage but decreases failover reindex cost and improves read availability."""
    plan = FleetPlan(repos=8, nodes=4, replicas=1, headroom=3.0, ttl_s=5.0, window_s=5.0)
    copied = run_fleet(replace(plan, drain=0, grow=0.0, commits=0.0))
    assert copied.is_settled
    assert copied.failover.repos > 0
    assert copied.failover.max_s == 0.0  # a replica served meanwhile
