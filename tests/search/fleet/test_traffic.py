"""How much each repository is searched."""

from argosy.search.fleet.eviction import HALF_LIFE_S, Traffic


def test_counts_of_searches_decay() -> None:
    traffic = Traffic()
    traffic.add("a")
    assert traffic.last_at("a") is None
    traffic.record(["a"], 10.0)
    traffic.record(["a"], 10.0)
    assert traffic.weight("a", 10.0) == 2.0
    assert traffic.weight("a", 10.0 + HALF_LIFE_S) == 1.0
    assert (traffic.searches("a"), traffic.last_at("a")) == (2, 10.0)


def test_an_index_that_is_not_loaded_is_not_counted() -> None:
    traffic = Traffic()
    traffic.record(["a"], 1.0)
    assert (traffic.searches("a"), traffic.weight("a", 1.0)) == (0, 0.0)
    traffic.add("a")
    traffic.record(["a", "b"], 2.0)
    traffic.remove("a")
    assert (traffic.searches("a"), traffic.last_at("a")) == (0, None)
