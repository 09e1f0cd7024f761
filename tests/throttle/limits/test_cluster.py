"""Limits in a Redis Cluster: buckets are on several nodes, and are found after a move."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
import redis

from argosy.base.backends.redis.url import parse_redis_url
from argosy.base.errors import Invalid, Unavailable
from argosy.throttle.limits.backends.redis import RedisLimiter
from tests.servers.valkey import Valkey, free_port
from tests.servers.valkey_groups import cluster, cluster_url
from tests.throttle.limits.stage import HandClock, redis_limiter, request

KEYS = [f"key-{number}" for number in range(60)]


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[Valkey]]:
    with cluster() as started:
        yield started


def keys_on(node: Valkey) -> int:
    with redis.Redis.from_url(node.url) as client:
        return len(client.keys())


def move_slot(nodes: list[Valkey], key: str) -> None:
    """Moves the slot of an unwritten key to another node."""
    with ExitStack() as stack:
        clients = [stack.enter_context(redis.Redis.from_url(node.url)) for node in nodes]
        slot = clients[0].execute_command("CLUSTER", "KEYSLOT", key)
        place = next(place for place, client in enumerate(clients) if not _serves(client, key))
        taker = clients.pop(place)
        name = taker.execute_command("CLUSTER", "MYID")
        for client in (taker, *clients):
            client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", name)
        taker.execute_command("CLUSTER", "BUMPEPOCH")  # so that the other nodes do not override it


@contextmanager
def begin_move(nodes: list[Valkey], key: str) -> Iterator[None]:
    """Marks the slot of an unwritten key as migrating to another node."""
    with ExitStack() as stack:
        clients = [stack.enter_context(redis.Redis.from_url(node.url)) for node in nodes]
        slot = clients[0].execute_command("CLUSTER", "KEYSLOT", key)
        source = next(client for client in clients if _serves(client, key))
        target = next(client for client in clients if client is not source)
        source_id, target_id = (client.execute_command("CLUSTER", "MYID") for client in (source, target))
        target.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", source_id)
        source.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", target_id)
        yield
        for client in clients:
            client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", target_id)


def _serves(client: "redis.Redis", key: str) -> bool:
    try:
        client.execute_command("GET", key)
    except redis.exceptions.MovedError:
        return False
    return True


async def answers(limiter: RedisLimiter, keys: list[str]) -> list[int]:
    return [each.remaining for each in await limiter.check([request(1, key=key) for key in keys])]


async def test_a_batch_is_spread_over_the_nodes_and_answered_in_order(nodes: list[Valkey], clock: HandClock) -> None:
    limiter = redis_limiter(cluster_url(nodes), clock)
    assert await answers(limiter, KEYS) == [9] * len(KEYS)
    assert await answers(limiter, [*KEYS[:2], "new", *KEYS[2:4]]) == [8, 8, 9, 8, 8]
    await limiter.ping()
    await limiter.close()
    assert all(keys_on(node) > 0 for node in nodes)


async def test_a_bucket_whose_slot_has_moved_is_found(nodes: list[Valkey], clock: HandClock) -> None:
    limiter = redis_limiter(cluster_url(nodes), clock, namespace="moved")
    assert await answers(limiter, ["stays"]) == [9]
    move_slot(nodes, "moved:limit:n_moves")
    assert await answers(limiter, ["stays", "moves", "moves"]) == [8, 9, 8]
    await limiter.close()


async def test_a_node_of_a_cluster_is_no_server_for_all(nodes: list[Valkey], clock: HandClock) -> None:
    limiter = redis_limiter(nodes[0].url, clock)
    with pytest.raises(Unavailable, match="use a URL with redis\\+cluster://"):
        await limiter.check([request(1, key=key) for key in KEYS])
    await limiter.close()


async def test_an_unreachable_cluster_is_unavailable_and_its_login_is_not_printed(clock: HandClock) -> None:
    limiter = RedisLimiter(f"redis+cluster://user:hidden@127.0.0.1:{free_port()}", clock=clock)
    with pytest.raises(Unavailable, match="check that it is running") as caught:
        await limiter.check([request(1)])
    await limiter.close()
    assert "hidden" not in str(caught.value)


def test_a_wrong_port_is_refused_at_once() -> None:
    with pytest.raises(Invalid, match="is not a Redis URL"):
        RedisLimiter("redis+cluster://user:hidden@host:port", clock=HandClock())


async def test_the_nodes_of_a_cluster_may_have_ipv6_addresses() -> None:
    url = parse_redis_url("redis+cluster://user:hidden@[::1]:1,[::2]:2")
    assert url.hosts == (("::1", 1), ("::2", 2))
    assert url.name == "redis+cluster://[::1]:1,[::2]:2"
    with pytest.raises(Invalid, match="is not a Redis URL"):
        RedisLimiter("redis+cluster://user:hidden@[::1]:1,[::2:2", clock=HandClock())


async def test_a_bucket_in_a_migrating_slot_is_found_on_the_target_node(nodes: list[Valkey], clock: HandClock) -> None:
    """ASK: the key is not on the old node any more, and the new one serves it only to a client that sends ASKING."""
    limiter = redis_limiter(cluster_url(nodes), clock, namespace="asked")
    assert await answers(limiter, ["stays"]) == [9]
    with begin_move(nodes, "asked:limit:n_moves"):
        assert await answers(limiter, ["stays", "moves", "moves"]) == [8, 9, 8]
        assert await answers(limiter, ["moves"]) == [7]
    await limiter.close()
