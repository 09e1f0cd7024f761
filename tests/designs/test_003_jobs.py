"""Document 003, "Silo internals": entities, tenancy, key layout, clustering, failure modes and rate limits.

Each test quotes what it proves. Sentences proved by another test are quoted beside that test's name, and the name is
checked to exist.
"""

import ast
from functools import cache
from pathlib import Path
from uuid import UUID

import pytest

from argosy.base.key_docs import KeyDoc
from argosy.jobs import keys
from argosy.jobs.cluster.shard_map import HashRange
from argosy.jobs.model import (
    LEASE_MS,
    WORKER_CRASHED,
    CheckRateLimit,
    ConcurrencyLimit,
    JobStatus,
    RateLimit,
    RequestTicket,
    RetryPolicy,
    RunAttempt,
    TaskFailure,
    TaskSuccess,
)
from argosy.jobs.settings import JobsSettings
from argosy.jobs.shard.rows import decode_attempt, decode_job, decode_lease, decode_task
from argosy.ownership.backends.etcd_records import KEY_DOCS, EtcdKeys
from argosy.ownership.model import SessionRole, Space, Unit
from argosy.ownership.settings import OwnershipSettings
from argosy.throttle.limits.model import RateLimitResponse, Status
from tests.jobs.shard.builders import NOW, T, World

ROOT = Path(__file__).parents[2]
RATE = RateLimit("mails", "acme", 100, 60_000)

COORDINATION, RING = "tests/designs/test_003_jobs_coordination.py", "tests/designs/test_003_jobs_ring.py"
CLUSTER, SHARD = "tests/jobs/cluster", "tests/jobs/shard"

PROVED_ELSEWHERE = {
    "Silo is built on top of SlateDB, which is a low-level key value store.":
        f"{SHARD}/test_against_oracle.py::SlateMachine",
    "A worker must complete the task or heartbeat for it before the lease expired":
        f"{SHARD}/test_transitions.py::test_a_heartbeat_extends_the_lease",
    "An individual tenant's data _can't_ be split across shards.":
        f"{CLUSTER}/test_ranges.py::test_splitting_leaves_every_tenant_in_exactly_one_part",
    "the compute is \"stateless\", in the sense that it can be started and stopped without fear of dataloss.":
        f"{CLUSTER}/test_embedded.py::test_jobs_and_shard_ids_survive_a_restart",
    "Storage is provided by object storage":
        "tests/journeys/test_jobs_survive.py::test_no_job_is_lost_run_twice_or_over_its_limit_during_failures",
    "individual compute node members all hold leases over some subset of the overall shards.":
        f"{CLUSTER}/test_cluster.py::test_all_shards_are_served_by_the_nodes_of_the_ring",
    "there's no central coordiantor managing which bits are assigned to which nodes":
        f"{RING}::test_the_whole_shard_space_is_assigned_without_a_coordinator",
    "shifting around as few as possible when cluster membership changes.":
        f"{RING}::test_a_membership_change_moves_as_few_shards_as_possible",
    "Elastic compute membership with fast join/leave":
        f"{CLUSTER}/test_cluster.py::test_a_joining_node_takes_only_its_shards",
    "Shards are the atomic unit of load; clients specify a shard on each request":
        f"{CLUSTER}/test_cluster.py::test_an_unknown_or_invalid_shard_id_is_rejected",
    "Minimal downtime on ownership changes":
        f"{CLUSTER}/test_cluster.py::test_a_leaving_node_hands_off_its_shards_within_two_seconds",
    "and no split-brain": "tests/sim/test_jobs.py::test_no_job_is_lost_doubled_or_over_its_limit_in_many_worlds",
    "etcd is used only for control plane (membership, locks, handover), never per-request on the data plane":
        f"{COORDINATION}::test_requests_never_reach_the_store",
    "Each node registers under `coord/members/<node_id>` with a membership lease (TTL, e.g. 10s).":
        f"{COORDINATION}::test_each_node_registers_address_and_metadata",
    "All nodes watch `coord/members/` and deterministically build a consistent hash ring":
        f"{RING}::test_every_node_builds_the_same_ring_from_the_same_members",
    "Use two independent leases per node": f"{COORDINATION}::test_a_node_has_two_independent_leases",
    "This lets us drop membership first (triggering ring rebalance) before releasing ownership.":
        f"{COORDINATION}::test_a_graceful_leave_drops_membership_first",
    "Nodes serve a shard only if they currently hold its `owner` key.":
        f"{COORDINATION}::test_only_the_owner_serves",
    "they rely on local in-memory ownership state maintained via watches/keepalives.":
        f"{CLUSTER}/test_cluster.py::test_a_node_without_the_shard_names_its_owner_without_reading_the_store",
    "Build ring from current `coord/members/*` and compute desired shard set.":
        f"{RING}::test_a_joining_node_computes_its_desired_shards_from_the_current_members",
    "Only start serving a shard after this key has been written":
        f"{COORDINATION}::test_serving_starts_after_the_key_is_written",
    "Start watches on `coord/members/*` and `coord/shards/<S>/owner` for shards you own or are next-in-line for.":
        f"{RING}::test_a_node_knows_the_shards_it_is_next_in_line_for",
    "If keepalives fail [...], immediately pause serving all owned shards to avoid split-brain.":
        f"{COORDINATION}::test_when_keepalives_fail_all_shards_pause",
    "recompute ring and run reconciliation: acquire new shards, release shards no longer owned.":
        f"{COORDINATION}::test_a_membership_change_moves_exactly_the_shards_the_ring_moves",
    "Delete `coord/members/<node_id>` [...] triggering ring recompute so contenders begin acquisition retries.":
        f"{RING}::test_only_the_shards_of_a_leaving_node_get_contenders",
    "Quiesce briefly per shard (1–2s) to drain in-flight work.":
        f"{COORDINATION}::test_a_leaving_node_quiesces_while_serving",
    "Revoke the liveness lease, which deletes all `coord/shards/*/owner` keys for this node":
        f"{COORDINATION}::test_revoking_the_liveness_lease_frees_all_shards_for_the_next_retry",
    "the new owners start trying to acquire the shard lock before the old owners release it.":
        f"{COORDINATION}::test_new_owners_claim_before_old_ones_release",
    "update their in-memory hash rings, which shifts which shards they are responsible for.":
        f"{RING}::test_a_membership_change_shifts_responsibility",
    "If exists, backoff and retry; never overwrite.": f"{COORDINATION}::test_a_held_shard_is_never_overwritten",
    "the previous owner's liveness lease expiry auto-deletes the key; the next retry succeeds and service starts.":
        f"{COORDINATION}::test_after_a_crash_the_next_retry_succeeds",
    "All others must return NOT_OWNER immediately.":
        f"{COORDINATION}::test_a_node_without_the_shard_returns_not_owner_with_a_hint",
    "Nodes must pause serving a shard if etcd keepalive fails, even if they still have the key locally":
        f"{CLUSTER}/test_cluster.py::test_a_node_cut_off_from_the_store_stops_serving_all_shards_before_its_ttl",
    "**Crash**: lease expires; `owner` keys auto-deleted; next owner acquires.":
        f"{CLUSTER}/test_cluster.py::test_a_crashed_nodes_shards_are_served_again_after_its_ttl",
    "**Network partition**: owner loses keepalive; it must cease serving; another node acquires after TTL":
        f"{COORDINATION}::test_a_partitioned_owner_stops_before_another_starts",
    "clients experiencing NOT_OWNER/timeout will retry and be redirected.":
        "tests/jobs/sdk/test_client.py::test_an_unavailable_shard_is_retried",
    "**Simultaneous join**: consistent hashing minimizes movement":
        f"{RING}::test_simultaneous_joins_move_only_shards_of_the_joining_nodes",
    "CAS on `owner` guarantees single winner.":
        f"{COORDINATION}::test_nodes_that_join_at_once_end_with_one_owner_each",
    "If not the owner, return NOT_OWNER with an optional hint":
        f"{COORDINATION}::test_a_node_without_the_shard_returns_not_owner_with_a_hint",
    "Clients retry a few times":
        "tests/jobs/sdk/test_client.py::test_retries_are_bounded_and_an_unreachable_node_is_named",
    "and may redirect using the hint.":
        "tests/jobs/sdk/test_client.py::test_a_moved_shard_is_followed_by_its_hint",
    "Servers never query etcd on the request path.": f"{COORDINATION}::test_requests_never_reach_the_store",
    "Watch backoff with jitter to avoid thundering herds on membership changes.":
        "tests/ownership/test_reconciler.py::test_new_owners_try_at_once_and_again_with_growing_jittered_waits",
    "Silo will make RPCs to Gubernator to check these rate limits":
        "tests/throttle/limits/test_gubernator.py::test_the_bytes_of_a_request_are_those_of_gubernators_field_numbers",
}  # fmt: skip


@cache
def _tests_in(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text())
    return {each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}


@pytest.mark.parametrize(("sentence", "proof"), PROVED_ELSEWHERE.items())
def test_the_referenced_test_exists(sentence: str, proof: str) -> None:
    file, _, name = proof.partition("::")
    assert name in _tests_in(file), f"no test proves: {sentence}"


@pytest.fixture
async def world() -> World:
    world = World()
    await world.shard.open()
    return world


def rows(world: World, kind: int) -> list[tuple[tuple[object, ...], bytes]]:
    """The durable rows of a kind, in their order."""
    start, end = keys.under(kind)
    return [
        (keys.items(key), world.store.durable[key]) for key in world.store.durable.irange(start, end, (True, False))
    ]


# -- entities ---------------------------------------------------------------------------------------------------------


async def test_a_job_is_attempted_until_success_or_retries_are_exhausted(world: World) -> None:
    """One unit of work that should be attempted until completion or retries exhausted."""
    policy = RetryPolicy(retry_count=2, initial_interval_ms=10, max_interval_ms=10)
    done, lost = await world.put(retry=policy), await world.put(retry=policy)
    for number in range(3):
        for leased in await world.lease():
            is_good = leased.job.id == done and number == 1
            await world.report(leased, TaskSuccess() if is_good else TaskFailure("E"))
        await world.pass_time(100)
    assert (await world.status(done), await world.status(lost)) == (JobStatus.SUCCEEDED, JobStatus.FAILED)
    assert len((await world.view(done)).attempts) == 2
    assert len((await world.view(lost)).attempts) == 3
    assert await world.lease() == []


async def test_an_attempt_is_one_try(world: World) -> None:
    """One attempt to run a unit of work"""
    job = await world.put()
    leased = await world.lease_one()
    (attempt,) = (await world.view(job)).attempts
    assert (attempt.number, attempt.task_id, attempt.worker) == (1, leased.task.id, "w")


async def test_internal_tasks_are_never_leased_to_workers(world: World) -> None:
    """there are other task types that represent internal operations that should happen after a point in time in the
    future. [...] some tasks are handled purely internally."""
    await world.put(limits=(ConcurrencyLimit("k", 1),), start_at_ms=NOW + 500)
    await world.put(limits=(RATE,))
    kinds = {type(decode_task(value).task) for _, value in rows(world, keys.TASK)}
    assert kinds == {RequestTicket, CheckRateLimit}
    assert await world.lease() == []
    await world.pass_time(500)
    assert len(await world.lease()) == 2


async def test_leasing_moves_a_task_from_the_queue_into_the_leases(world: World) -> None:
    """Upon leasing, a task is moved from the task queue into the task leases."""
    await world.put()
    ((_, queued),) = rows(world, keys.TASK)
    assert rows(world, keys.LEASE) == []
    await world.lease_one()
    assert rows(world, keys.TASK) == []
    ((_, lease),) = rows(world, keys.LEASE)
    assert decode_lease(lease).task == decode_task(queued).task


async def test_a_silent_worker_counts_as_crashed(world: World) -> None:
    """or else the system will assume the worker has crashed."""
    job = await world.put()
    await world.lease_one()
    await world.pass_time(LEASE_MS - 1)
    assert await world.status(job) == JobStatus.RUNNING
    await world.pass_time(1)
    assert (await world.view(job)).attempts[0].error_code == WORKER_CRASHED


# -- tenancy ----------------------------------------------------------------------------------------------------------


async def test_a_tenants_rows_are_adjacent(world: World) -> None:
    """Storage is oriented to group all of one tenant's data together for fast scanning."""
    for number in range(12):
        await world.put(tenant=f"t{number % 3}")
    for kind in (keys.JOB, keys.LIVE, keys.STATUS):
        tenants = [str(items[0]) for items, _ in rows(world, kind)]
        assert tenants == sorted(tenants)
        assert len(tenants) == 12


def test_a_tenant_has_one_shard() -> None:
    """An individual tenant's data _can't_ be split across shards."""
    left, right = HashRange("", "").split("8000000000000000")
    for number in range(50):
        assert left.has(f"t{number}") != right.has(f"t{number}")


# -- key/value layout -------------------------------------------------------------------------------------------------


async def test_jobs_and_attempts_are_found_by_tenant_and_id(world: World) -> None:
    """`jobs/<tenant-id>/<job-id>` - stores job payloads [...] `attempts/<tenant-id>/<job-id>/<attempt-number>` - stores
    attempt details"""
    job = await world.put(payload=b"p")
    await world.lease_one()
    ((place, value),) = rows(world, keys.JOB)
    assert (place, decode_job(value).payload) == ((T, job), b"p")
    ((place, value),) = rows(world, keys.ATTEMPT)
    assert (place, decode_attempt(value).number) == ((T, job, 1), 1)


async def test_tasks_are_stored_in_due_order(world: World) -> None:
    """`tasks/<start-time>/<priority>/<job-id>/<attempt-number>` - stores the work items that need accomplishing in task
    order."""
    later = await world.put(id="a", start_at_ms=NOW + 10, priority=0)
    low = await world.put(id="b", priority=9)
    high = [await world.put(id=name, priority=1) for name in ("d", "c")]
    places = [items for items, _ in rows(world, keys.TASK)]
    assert [place[1:5] for place in places] == [
        (NOW, 1, high[1], 1),
        (NOW, 1, high[0], 1),
        (NOW, 9, low, 1),
        (NOW + 10, 0, later, 1),
    ]


def test_a_task_has_a_system_generated_uuid() -> None:
    """Each stored task has a system-generated UUID."""
    from argosy.jobs.cluster.node import new_uuid

    assert UUID(new_uuid()).version == 4
    assert new_uuid() != new_uuid()


async def test_a_lease_record_names_worker_task_and_expiry(world: World) -> None:
    """`lease/<task-id>` - during leasing, dequeued tasks are written here keyed by task id. The value stores a
    LeaseRecord `{ worker_id, task, expiry_ms }`."""
    await world.put()
    leased = await world.lease_one(worker="w7")
    ((place, value),) = rows(world, keys.LEASE)
    lease = decode_lease(value)
    assert place == (leased.task.id,)
    assert (lease.worker, lease.task, lease.expires_at) == ("w7", leased.task, NOW + LEASE_MS)


async def test_expired_leases_are_found_among_the_leases(world: World) -> None:
    """Expired lease detection scans this prefix and inspects `expiry_ms`."""
    await world.put(retry=RetryPolicy(retry_count=1))
    first = await world.lease_one()
    await world.reopen()  # the state of leases is rebuilt from that prefix
    await world.pass_time(LEASE_MS)
    assert rows(world, keys.LEASE) == []
    assert (await world.lease_one()).task.id != first.task.id


async def test_an_index_by_status_has_the_latest_change_first(world: World) -> None:
    """`idx/status_ts/<tenant>/<status>/<inv_ts:020>/<job-id>` stores a secondary index for all jobs, by status, ordered
    by the time of the last transition"""
    names = []
    for _ in range(3):
        names.append(await world.put())
        await world.report(await world.lease_one(), TaskSuccess())
        await world.pass_time(1)
    index_keys = [(items[:2], items[3]) for items, _ in rows(world, keys.STATUS)]
    assert index_keys == [((T, int(JobStatus.SUCCEEDED)), name) for name in reversed(names)]
    views = await world.shard.find(T, status=JobStatus.SUCCEEDED)
    assert [view.job.id for view in views] == names[::-1]


# -- the control plane ------------------------------------------------------------------------------------------------


def test_control_plane_keys_are_ephemeral_per_member_and_shard() -> None:
    """`coord/members/<node_id>` → ephemeral; node metadata. `coord/shards/<shard_id>/owner` → ephemeral; ownership
    record"""
    spelled = EtcdKeys("", "coord", Space("shards", is_auctioned=False))
    assert spelled.session(SessionRole.MEMBER, "silo-a") == b"/coord/shards/members/silo-a"
    assert spelled.lease(Unit("7")) == b"/coord/shards/leases/0:7"  # 0: the first copy, and of shards the only one
    docs: dict[str, KeyDoc] = {doc.name: doc for doc in KEY_DOCS}
    assert docs["members/<node>"].kind == "on the member session's etcd lease"
    assert docs["leases/<unit>"].kind == "on the holder session's etcd lease"


def test_the_timing_defaults_match_the_document() -> None:
    """Timing parameters (tunable): Lease TTL: 10s; keepalive: every 2s; optional quiesce deadline: 1–2s per shard."""
    timing = JobsSettings().ownership(OwnershipSettings())
    assert (timing.ttl_s, timing.renew_s) == (10.0, 2.0)
    assert 1.0 <= timing.quiesce_s <= 2.0
    tuned = JobsSettings(ttl_s=30.0, renew_s=5.0, quiesce_s=0.0).ownership(OwnershipSettings())
    assert (tuned.ttl_s, tuned.renew_s, tuned.quiesce_s) == (30.0, 5.0, 0.0)


def test_shard_claims_are_retried_with_jitter() -> None:
    """Each runs a jittered loop: try `Put` of `coord/shards/<S>/owner` with its liveness lease"""
    timing = JobsSettings().ownership(OwnershipSettings())
    assert timing.claim_jitter_s > 0
    assert timing.claim_retry_s > 0
    assert timing.handoff_wait_s > 0  # Old shard owners wait a little bit


# -- rate limits ------------------------------------------------------------------------------------------------------


async def test_a_rate_is_polled_by_a_task_for_each_attempt(world: World) -> None:
    """For each attempt, Silo will make RPCs to Gubernator to check these rate limits before allowing the attempt to
    run. This is done by enqueuing and running a task that polls the rate limit in Gubernator."""
    await world.put(limits=(RATE,), retry=RetryPolicy(retry_count=1))
    for attempt in (1, 2):
        ((_, value),) = rows(world, keys.TASK)
        assert isinstance(decode_task(value).task, CheckRateLimit)
        assert await world.lease() == []
        await world.pass_time(0)
        assert len(world.limiter.requests) == attempt
        await world.report(await world.lease_one(), TaskFailure("E"))
    (rate_request,) = world.limiter.requests[0]
    assert (rate_request.name, rate_request.unique_key, rate_request.limit) == ("mails", "acme", 100)


async def test_a_passed_rate_check_queues_the_attempt_and_a_failed_one_is_retried(world: World) -> None:
    """If the rate limit passes, we enqueue the actual task to run the attempt, and if it doesn't, we re-enqueue a task
    for the future to poll the rate limit again."""
    world.limiter.response = RateLimitResponse(Status.OVER_LIMIT)
    await world.put(limits=(RATE,))
    await world.pass_time(0)
    ((_, value),) = rows(world, keys.TASK)
    again = decode_task(value)
    assert isinstance(again.task, CheckRateLimit)
    assert again.start_at > world.now
    world.limiter.response = RateLimitResponse(Status.UNDER_LIMIT)
    await world.pass_time(again.start_at - world.now)
    ((_, value),) = rows(world, keys.TASK)
    assert isinstance(decode_task(value).task, RunAttempt)
