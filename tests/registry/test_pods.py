"""Pods are alive while they send heartbeats."""

from argosy.registry import scoped_keys
from tests.registry.interpreter import Interpreter


def live(store: Interpreter) -> list[str]:
    return [pod.pod_id for pod in store.run(scoped_keys.live_pods())]


def test_a_pod_is_alive_for_a_window_after_its_last_heartbeat() -> None:
    store = Interpreter()
    store.run(scoped_keys.heartbeat_pod("p1"))
    store.pass_time(scoped_keys.WINDOW_MS - 1)
    store.run(scoped_keys.heartbeat_pod("p2"))
    assert live(store) == ["p1", "p2"]
    store.pass_time(1)
    assert live(store) == ["p2"]
    store.run(scoped_keys.heartbeat_pod("p1"))
    assert live(store) == ["p2", "p1"]


def test_a_leaving_pod_is_removed_at_once() -> None:
    store = Interpreter()
    store.run(scoped_keys.heartbeat_pod("p1"))
    assert store.run(scoped_keys.remove_pod("p1"))
    assert not store.run(scoped_keys.remove_pod("p1"))
    assert live(store) == []


def test_pods_without_heartbeats_are_pruned() -> None:
    store = Interpreter()
    store.run(scoped_keys.heartbeat_pod("p1"))
    store.pass_time(scoped_keys.WINDOW_MS_MAX)
    store.run(scoped_keys.heartbeat_pod("p2"))
    assert [store.run(scoped_keys.prune_pods()) for _ in range(2)] == [1, 0]
    assert set(store.state.rows["live_pods"]) == {("p2",)}
