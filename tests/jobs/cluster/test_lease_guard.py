"""The guard of a shard: which calls it admits, and that every call passes it."""

import inspect
from typing import Any

import pytest

from argosy.base.errors import Conflict, Fenced, NotOwner, Unavailable
from argosy.jobs.cluster.lease_guard import GuardedShard, LeaseGuard
from argosy.jobs.cluster.shard_map import HashRange
from argosy.jobs.model import NewJob
from argosy.jobs.ports import ShardCalls

CALLS = {name: call for name, call in vars(ShardCalls).items() if inspect.iscoroutinefunction(call)}


class Shard:
    """Records its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.error: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        async def call(*_: object, **__: object) -> str:
            self.calls.append(name)
            if self.error is not None:
                raise self.error
            return name

        return call


class World:
    def __init__(self, range_: HashRange | None = None) -> None:
        self.shard: Any = Shard()
        self.checks = 0
        self.held_for = 1_000  # checks
        self.guard = LeaseGuard("s", range_ or HashRange("", ""), self.check)
        self.guarded: Any = GuardedShard(self.guard, self.shard)

    def check(self) -> None:
        self.checks += 1
        if self.checks > self.held_for:
            raise NotOwner("the lease has expired")


def arguments(name: str) -> dict[str, Any]:
    """Values for the parameters that a call requires."""
    parameters = list(inspect.signature(CALLS[name]).parameters.values())[1:]
    values = {"jobs": [], "outcomes": [], "schedule": type("Schedule", (), {"tenant": "a"})}
    return {each.name: values.get(each.name, "a") for each in parameters if each.default is each.empty}


@pytest.mark.parametrize("name", CALLS)
async def test_every_call_of_a_shard_passes_the_guard(name: str) -> None:
    world = World()
    assert await getattr(world.guarded, name)(**arguments(name)) == name
    world.guard.close(Unavailable("moving"))
    with pytest.raises(Unavailable, match="moving"):
        await getattr(world.guarded, name)(**arguments(name))
    assert world.shard.calls == [name]


@pytest.mark.parametrize("name", CALLS)
async def test_a_fenced_shard_redirects_the_caller_to_the_new_owner(name: str) -> None:
    world = World()
    fenced: list[str] = []
    world.guard.on_fenced = lambda: fenced.append(name)
    world.shard.error = Fenced("another writer")
    with pytest.raises(NotOwner, match="taken over"):
        await getattr(world.guarded, name)(**arguments(name))
    assert fenced == [name]


@pytest.mark.parametrize("name", ["get", "find", "schedules"])
async def test_a_read_counts_only_if_the_lease_is_held_to_the_end(name: str) -> None:
    world = World()
    world.held_for = 1
    with pytest.raises(NotOwner):
        await getattr(world.guarded, name)(**arguments(name))
    assert world.shard.calls == [name]


async def test_a_tenant_of_another_shard_is_rejected() -> None:
    world = World(HashRange("", "0000000000000001"))
    with pytest.raises(Conflict, match="refresh topology and retry"):
        await world.guarded.enqueue([NewJob("mail", tenant="a")])
    with pytest.raises(Conflict, match="refresh topology and retry"):
        await world.guarded.cancel("a", "1")
    assert world.shard.calls == []
