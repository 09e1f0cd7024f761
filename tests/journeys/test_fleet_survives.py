"""Five real nodes on a real store: one is killed, one is stopped past its TTL, the store is restarted.

At no instant may two of them serve one unit (OWN-1), and every unit is owned again in time.
"""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.fleet import NodeProcess, Prober, eventually, stale_answers
from tests.journeys.serving_log import intervals, overlaps
from tests.servers.etcd import Etcd
from tests.servers.valkey import Valkey

TTL_S, WINDOW_S = 3.0, 3.0
SLACK_S = 30.0  # allowance for a busy machine; the bench measures the times on an idle one
UNITS = [f"unit-{number:03}" for number in range(100)]


@pytest.fixture(params=["valkey", "etcd"])
def store(request: pytest.FixtureRequest) -> Iterator[Valkey | Etcd]:
    with Valkey(is_durable=True) if request.param == "valkey" else Etcd() as server:
        yield server


@pytest.fixture
def fleet(store: Valkey | Etcd, tmp_path: Path) -> Iterator[list[NodeProcess]]:
    settings = {
        "ownership_store": store.url,
        "ownership_ttl_s": str(TTL_S),
        "ownership_renew_s": "0.7",
        "ownership_window_s": str(WINDOW_S),
        "ownership_units": ",".join(UNITS),
    }
    nodes = [NodeProcess(f"node-{number}", tmp_path, settings) for number in range(5)]
    for node in nodes:
        node.start()
    try:
        yield nodes
    finally:
        for node in nodes:
            if node.is_alive():
                node.signal(signal.SIGCONT)
                node.kill()


def all_owned_by(observer: NodeProcess, living: list[NodeProcess]) -> bool:
    owners = observer.owners()
    return len(owners) == len(UNITS) and set(owners.values()) <= {node.name for node in living}


def holds_nothing(observer: NodeProcess, node: NodeProcess) -> bool:
    _, body = observer.get("/v1/leases")
    return "leases" in body and all(row["node"] != node.name for row in body["leases"])


@pytest.mark.timeout(240)
def test_no_instant_has_two_servers_of_one_unit_during_failures(store: Valkey | Etcd, fleet: list[NodeProcess]) -> None:
    killed, stopped, *others = fleet
    observer = others[0]
    eventually(lambda: all(node.address() for node in fleet), within_s=30, what="five nodes are up")
    eventually(lambda: all_owned_by(observer, fleet), within_s=60, what="every unit is owned")
    probers = [Prober(node, UNITS) for node in fleet]
    for prober in probers:
        prober.start()
    in_time = TTL_S + WINDOW_S + SLACK_S

    killed.kill()
    eventually(lambda: all_owned_by(observer, [stopped, *others]), within_s=in_time, what="owned after kill -9")

    stopped.signal(signal.SIGSTOP)
    eventually(lambda: all_owned_by(observer, others), within_s=in_time, what="owned while one node is stopped")
    stopped.signal(signal.SIGCONT)
    eventually(lambda: stopped.get("/readyz")[0] == 200, within_s=in_time, what="the continued node is ready")

    store.kill()
    store.start()
    eventually(lambda: observer.get("/readyz")[0] == 200, within_s=in_time, what="the store is reachable")
    eventually(lambda: all_owned_by(observer, [stopped, *others]), within_s=in_time, what="owned after the restart")

    eventually(
        lambda: {answer.unit for prober in probers for answer in prober.answers} == set(UNITS),
        within_s=60,
        what="every unit has a response",
    )
    answers = [answer for prober in probers for answer in prober.stop()]
    served = intervals([node.log for node in fleet])
    assert overlaps(served) == []
    assert stale_answers(answers) == []
    assert served.keys() == set(UNITS)
