"""Aliases: one step moves a name, and its last states are kept."""

import pytest

from argosy.base.errors import Conflict, Invalid, NotFound
from argosy.registry import aliases
from argosy.registry.aliases import AliasState, ResolvedAlias
from argosy.registry.rows import AliasKind
from tests.registry.interpreter import START_MS, Interpreter


def test_an_alias_refers_to_an_index_and_moves_to_another() -> None:
    store = Interpreter()
    alias = store.run(aliases.create("docs", ["docs-1"]))
    assert store.run(aliases.resolve("docs")) == ResolvedAlias(("docs-1",), 1, is_writable=True)
    store.pass_time(3)
    flipped = store.run(aliases.flip("docs", ["docs-2"], expected_version=alias.version))
    assert (flipped.current_uid, flipped.version) == ("docs-2", 2)
    assert aliases.history_of(flipped) == (AliasState(("docs-1",), 1, START_MS + 3),)
    assert store.run(aliases.read("docs")) == flipped


def test_a_name_is_unique() -> None:
    store = Interpreter()
    store.run(aliases.create("docs", ["docs-1"]))
    with pytest.raises(Conflict, match="already exists"):
        store.run(aliases.create("docs", ["docs-9"]))


def test_of_two_flips_from_one_version_the_second_is_rejected() -> None:
    store = Interpreter()
    store.run(aliases.create("docs", ["a"]))
    store.meanwhile(aliases.flip("docs", ["b"], expected_version=1))
    with pytest.raises(Conflict, match="at version 2, not 1"):
        store.run(aliases.flip("docs", ["c"], expected_version=1))
    assert store.run(aliases.resolve("docs")) == ResolvedAlias(("b",), 2, is_writable=True)


def test_flips_without_a_version_follow_one_another() -> None:
    store = Interpreter()
    store.run(aliases.create("docs", ["a"]))
    store.meanwhile(aliases.flip("docs", ["b"]))
    last = store.run(aliases.flip("docs", ["c"]))
    assert [state.uids for state in aliases.history_of(last)] == [("a",), ("b",)]


def test_the_last_ten_states_are_kept() -> None:
    store = Interpreter()
    store.run(aliases.create("docs", ["0"]))
    for n in range(1, 15):
        last = store.run(aliases.flip("docs", [str(n)]))
    assert [state.uids for state in aliases.history_of(last)] == [(str(n),) for n in range(4, 14)]
    assert aliases.history_of(store.run(aliases.flip("docs", ["x"], keep=0))) == ()


def test_a_multi_alias_is_read_only_and_keeps_its_kind() -> None:
    store = Interpreter()
    store.run(aliases.create("all", ["a", "b"], AliasKind.MULTI))
    assert store.run(aliases.resolve("all")) == ResolvedAlias(("a", "b"), 1, is_writable=False)
    with pytest.raises(Conflict, match="is multi"):
        store.run(aliases.flip("all", ["c"]))
    flipped = store.run(aliases.flip("all", ["b", "c"], kind=AliasKind.MULTI))
    assert aliases.history_of(flipped)[0].uids == ("a", "b")


@pytest.mark.parametrize("targets", [[], ["a", "b"], [""], "docs-1"])
def test_a_single_alias_names_one_index(targets: list[str]) -> None:
    with pytest.raises(Invalid):
        Interpreter().run(aliases.create("docs", targets))


def test_an_alias_is_deleted_only_at_the_expected_version() -> None:
    store = Interpreter()
    store.run(aliases.create("docs", ["a"]))
    with pytest.raises(Conflict, match="at version 1, not 7"):
        store.run(aliases.remove("docs", expected_version=7))
    assert store.run(aliases.remove("docs", expected_version=1))
    assert not store.run(aliases.remove("docs"))
    assert store.run(aliases.resolve("docs")) is None
    with pytest.raises(NotFound):
        store.run(aliases.flip("docs", ["b"]))


def test_all_aliases_are_listed_oldest_first() -> None:
    store = Interpreter()
    for name in ("z", "a", "_index", "a:b"):
        store.run(aliases.create(name, ["x"]))
        store.pass_time(1)
    assert [alias.name for alias in store.run(aliases.everything())] == ["z", "a", "_index", "a:b"]
