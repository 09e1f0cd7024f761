"""Groups of Valkey servers: a cluster, and a primary with a replica and the sentinel that monitors them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Event

import redis

from argosy.base.clock import SystemClock
from tests.servers.valkey import Valkey, free_port

HOST = "127.0.0.1"
SERVICE = "throttle"
PATIENCE_S = 60.0
LOOK_S = 0.01
CLOCK = SystemClock()


@contextmanager
def cluster(size: int = 3) -> Iterator[list[Valkey]]:
    with ExitStack() as stack:
        options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-port")
        # The cluster bus uses a port 10,000 higher by default, which may exceed the largest port.
        buses = [str(free_port()) for _ in range(size)]
        nodes = [stack.enter_context(Valkey(options=(*options, bus))) for bus in buses]
        clients = [stack.enter_context(redis.Redis.from_url(node.url)) for node in nodes]
        share = 16384 // size
        for number, client in enumerate(clients):
            last = 16383 if number == size - 1 else (number + 1) * share - 1
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", number * share, last)
            client.execute_command("CLUSTER", "MEET", HOST, nodes[0].port, buses[0])
        _wait_until(lambda: all(_is_complete(client, size) for client in clients))
        yield nodes


def cluster_url(nodes: list[Valkey]) -> str:
    return "redis+cluster://" + ",".join(f"{HOST}:{node.port}" for node in nodes[:2])


def _is_complete(client: "redis.Redis", size: int) -> bool:
    reply = client.execute_command("CLUSTER", "INFO")
    text = reply if isinstance(reply, dict) else dict(line.split(":", 1) for line in reply.decode().split())
    return text["cluster_state"] == "ok" and int(text["cluster_known_nodes"]) == size


class Sentinel(Valkey):
    """The same program as a sentinel; it stores its state in its configuration file."""

    NAME = "sentinel"

    def _command(self) -> list[str]:
        settings = self.home / "sentinel.conf"
        settings.touch()
        options = ("--sentinel", "--port", str(self.port), "--bind", HOST, "--dir", str(self.home))
        return [super()._command()[0], str(settings), *options]


@contextmanager
def run_sentinel(primary: Valkey, replica: Valkey, *, down_after_ms: int = 500) -> Iterator[str]:
    """The URL of a Sentinel that monitors the two, and promotes the replica when the primary is unreachable."""
    with Sentinel() as watching, redis.Redis.from_url(watching.url) as sentinel:
        with redis.Redis.from_url(replica.url) as client:
            client.execute_command("REPLICAOF", HOST, primary.port)
        sentinel.execute_command("SENTINEL", "MONITOR", SERVICE, HOST, primary.port, 1)
        sentinel.execute_command(
            "SENTINEL", "SET", SERVICE, "down-after-milliseconds", down_after_ms, "failover-timeout", 5000
        )
        _wait_until(lambda: _has_replica(sentinel))
        yield f"redis+sentinel://{HOST}:{watching.port}/{SERVICE}"


def _has_replica(client: "redis.Redis") -> bool:
    reply = client.execute_command("SENTINEL", "REPLICAS", SERVICE)
    return len(reply) == 1


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = CLOCK.now() + PATIENCE_S
    while not condition():
        assert CLOCK.now() < deadline, "the servers did not connect to each other"
        Event().wait(LOOK_S)
