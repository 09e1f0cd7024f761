"""The audit detects the violations it exists for: each planted fault is reported."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from argosy.jobs import keys
from argosy.jobs.model import ConcurrencyLimit, JobState, JobStatus
from argosy.jobs.shard.audit import audit
from argosy.jobs.shard.rows import decode_state, encode
from tests.jobs.shard.builders import StagedStore, T, World


def first(store: StagedStore, kind: int) -> bytes:
    row_key: bytes = next(key for key in store.visible if key[0] == kind)
    return row_key


def lose(kind: int) -> Callable[[World], None]:
    return lambda world: world.store.visible.pop(first(world.store, kind))


def turn(kind: int, **changes: object) -> Callable[[World], None]:
    def plant(world: World) -> None:
        key = first(world.store, kind)
        state: JobState = decode_state(world.store.visible[key])
        world.store.visible[key] = encode(replace(state, **changes))  # type: ignore[arg-type]

    return plant


def double_lease(world: World) -> None:
    key = first(world.store, keys.LEASE)
    lease = world.shard.queues.leases.by_task[str(keys.items(key)[0])].lease
    second = replace(lease, task=replace(lease.task, id="twin"))  # type: ignore[type-var]
    world.store.visible[keys.key(keys.LEASE, "twin")] = encode(second)


def second_holder(world: World) -> None:
    queued = next(iter(world.shard.queues.slots.waiting.values())).first()
    assert queued is not None
    world.store.visible[keys.key(keys.HOLDER, T, "one", queued.task_id)] = encode(1)


def idle_holder(world: World) -> None:
    world.store.visible[keys.key(keys.HOLDER, T, "one", "nobody")] = encode(1)


@pytest.mark.parametrize(
    ("plant", "name"),
    [
        (lose(keys.JOB), "everyJobHasOneState"),
        (lose(keys.LEASE), "leaseJobMustBeRunning"),
        (lose(keys.LEASE), "noZombieAttempts"),
        (lose(keys.ATTEMPT), "runningJobHasRunningAttempt"),
        (lose(keys.REQUEST), "restartedJobIsScheduledWithTask"),
        (lose(keys.TASK), "memoryIsWhatRowsSay"),
        (lose(keys.STATUS), "indexesAgree"),
        (lose(keys.HOLDER), "memoryIsWhatRowsSay"),
        (turn(keys.LIVE, status=JobStatus.FAILED), "noLeasesForTerminal"),
        (turn(keys.LIVE, status=JobStatus.SUCCEEDED), "validTransitions"),
        (double_lease, "oneLeasePerJob"),
        (second_holder, "queueLimitEnforced"),
        (second_holder, "grantedMeansNoRequest"),
        (idle_holder, "holdersRequireActiveTask"),
    ],
)
async def test_a_planted_fault_is_reported(plant: Callable[[World], None], name: str) -> None:
    world = World()
    await world.shard.open()
    limits = (ConcurrencyLimit("one", 1),)
    await world.put(id="a-runs", limits=limits)
    await world.lease_one()
    await world.put(id="b-parked", limits=limits)
    await world.put(id="c-waits")
    assert await audit(world.shard) == []
    plant(world)
    assert any(heap.startswith(f"{name}:") for heap in await audit(world.shard))
