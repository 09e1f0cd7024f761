"""How many instances share the load."""

from argosy.throttle.exchange import LIVE_S, PEERS_MAX, Peers


def test_an_instance_without_peers_is_alone() -> None:
    assert Peers("me").count(0.0) == 1


def test_every_writer_counts_and_the_instance_itself_once() -> None:
    peers = Peers("me")
    peers.on_writers({"a": 3, "b": 1, "me": 9}, 10.0)
    assert peers.count(10.0) == 3


def test_a_peer_without_new_writes_is_dropped_after_a_while() -> None:
    peers = Peers("me")
    peers.on_writers({"a": 3, "b": 1}, 0.0)
    peers.on_writers({"a": 4, "b": 1}, LIVE_S)
    assert peers.count(LIVE_S) == 3
    peers.on_writers({"a": 4, "b": 1}, LIVE_S + 1)
    assert peers.count(LIVE_S + 1) == 2


def test_an_older_number_from_another_row_is_ignored() -> None:
    peers = Peers("me")
    peers.on_writers({"a": 7}, 0.0)
    peers.on_writers({"a": 5}, LIVE_S + 1)
    assert peers.count(LIVE_S + 1) == 1


def test_no_peer_ages_while_the_store_is_unreachable() -> None:
    peers = Peers("me")
    peers.on_writers({"a": 7, "b": 7, "c": 7}, 0.0)
    assert peers.count(100 * LIVE_S) == 4


def test_memory_for_peers_is_bounded() -> None:
    peers = Peers("me")
    peers.on_writers({f"old-{n}": 1 for n in range(PEERS_MAX)}, 0.0)
    peers.on_writers({f"new-{n}": 1 for n in range(10)}, 1.0)
    assert peers.count(1.0) == PEERS_MAX + 1
