"""Pods are alive as long as they say so."""

from argosy.registry import pods
from tests.registry.interpreter import Interpreter


def live(store: Interpreter) -> list[str]:
    return [pod.pod_id for pod in store.run(pods.live())]


def test_a_pod_is_alive_for_a_window_after_its_last_word() -> None:
    store = Interpreter()
    store.run(pods.heartbeat("p1"))
    store.pass_time(pods.WINDOW_MS - 1)
    store.run(pods.heartbeat("p2"))
    assert live(store) == ["p1", "p2"]
    store.pass_time(1)
    assert live(store) == ["p2"]
    store.run(pods.heartbeat("p1"))
    assert live(store) == ["p2", "p1"]


def test_a_pod_that_leaves_is_gone_at_once() -> None:
    store = Interpreter()
    store.run(pods.heartbeat("p1"))
    assert store.run(pods.leave("p1"))
    assert not store.run(pods.leave("p1"))
    assert live(store) == []


def test_pods_silent_for_long_are_forgotten() -> None:
    store = Interpreter()
    store.run(pods.heartbeat("p1"))
    store.pass_time(pods.WINDOW_MS_MAX)
    store.run(pods.heartbeat("p2"))
    assert [store.run(pods.prune()) for _ in range(2)] == [1, 0]
    assert set(store.state.rows["live_pods"]) == {("p2",)}
