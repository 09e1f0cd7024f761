"""Settings versions only grow, and are read by index or by node."""

import pytest

from argosy.base.errors import Invalid
from argosy.registry import settings_versions as versions
from tests.registry.interpreter import START_MS, Interpreter


def test_a_version_never_goes_back() -> None:
    store = Interpreter()
    assert store.run(versions.advance("docs", "n1", 3)).settings_version == 3
    store.pass_time(7)
    late = store.run(versions.advance("docs", "n1", 2))
    assert (late.settings_version, late.updated_at, late.version) == (3, START_MS, 1)
    assert store.run(versions.advance("docs", "n1", 4)).updated_at == START_MS + 7


def test_a_lower_version_loses_against_a_higher_concurrent_one() -> None:
    store = Interpreter()
    store.run(versions.advance("docs", "n1", 1))
    store.meanwhile(versions.advance("docs", "n1", 9))
    assert store.run(versions.advance("docs", "n1", 5)).settings_version == 9


def test_a_first_version_without_settings_is_stored() -> None:
    store = Interpreter()
    assert store.run(versions.advance("docs", "n1", 0)).version == 1
    assert store.run(versions.nodes_of("docs")) == {"n1": 0}


def test_one_read_returns_all_nodes_of_an_index_without_the_fleet() -> None:
    store = Interpreter()
    for node in ("n1", "n2"):
        store.run(versions.advance("docs", node, 4))
    store.run(versions.advance("logs", "n1", 1))
    assert (store.run(versions.bump("docs")), store.run(versions.bump("docs"))) == (1, 2)
    assert store.run(versions.nodes_of("docs")) == {"n1": 4, "n2": 4}
    assert (store.run(versions.current("docs")), store.run(versions.current("logs"))) == (2, 0)


def test_two_that_count_the_fleet_up_at_once_get_two_versions() -> None:
    store = Interpreter()
    store.run(versions.bump("docs"))
    store.meanwhile(versions.bump("docs"))
    assert store.run(versions.bump("docs")) == 3


def test_a_dropped_index_and_a_removed_node_leave_no_rows() -> None:
    store = Interpreter()
    for index in ("docs", "logs"):
        store.run(versions.bump(index))
        for node in ("n1", "n2"):
            store.run(versions.advance(index, node, 1))
    assert (store.run(versions.delete_node("n1")), store.run(versions.delete_node("n1"))) == (2, 0)
    assert store.run(versions.nodes_of("docs")) == {"n2": 1}
    assert store.run(versions.indexes()) == {"docs": 1, "logs": 1}
    assert (store.run(versions.delete_index("docs")), store.run(versions.delete_index("docs"))) == (2, 0)
    assert (store.run(versions.current("docs")), store.run(versions.current("logs"))) == (0, 1)
    assert store.run(versions.read("docs", "n2")) is None


def test_no_index_is_called_like_the_fleet() -> None:
    store = Interpreter()
    with pytest.raises(Invalid, match="whole fleet"):
        store.run(versions.advance(versions.FLEET, "n1", 1))
    with pytest.raises(Invalid, match="at least 0"):
        store.run(versions.advance("docs", "n1", -1))
    with pytest.raises(Invalid, match="key"):
        store.run(versions.advance("", "n1", 1))
