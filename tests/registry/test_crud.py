"""Plain rows: a late writer gets an error."""

import pytest

from argosy.base.errors import Conflict, Invalid, NotFound
from argosy.registry import crud
from argosy.registry.rows import AliasKind, Canary, IndexAlias, SearchUiConfig
from argosy.registry.tables import ALIASES, CANARIES, SEARCH_UI_CONFIG, log_name
from tests.registry.interpreter import Interpreter

CONFIG = SearchUiConfig("docs", {"title": "Docs"}, 5)


def test_a_row_is_written_at_the_version_that_was_read() -> None:
    store = Interpreter()
    first = store.run(crud.put(SEARCH_UI_CONFIG, CONFIG))
    assert (first.version, store.run(crud.read(SEARCH_UI_CONFIG, "docs"))) == (1, first)
    second = store.run(crud.put(SEARCH_UI_CONFIG, first))
    assert second.version == 2
    with pytest.raises(Conflict, match="at version 2, not 1; read it again"):
        store.run(crud.put(SEARCH_UI_CONFIG, first))
    with pytest.raises(Conflict, match="already has 'docs'"):
        store.run(crud.put(SEARCH_UI_CONFIG, CONFIG))


def test_a_row_that_was_deleted_meanwhile_is_not_found() -> None:
    store = Interpreter()
    first = store.run(crud.put(SEARCH_UI_CONFIG, CONFIG))
    store.meanwhile(crud.delete(SEARCH_UI_CONFIG, "docs"))
    with pytest.raises(NotFound, match="'docs' not found"):
        store.run(crud.put(SEARCH_UI_CONFIG, first))


def test_a_row_is_deleted_at_the_version_that_was_read() -> None:
    store = Interpreter()
    store.run(crud.put(SEARCH_UI_CONFIG, CONFIG))
    with pytest.raises(Conflict):
        store.run(crud.delete(SEARCH_UI_CONFIG, "docs", expected_version=2))
    assert store.run(crud.delete(SEARCH_UI_CONFIG, "docs", expected_version=1))
    assert not store.run(crud.delete(SEARCH_UI_CONFIG, "docs"))


def test_a_duplicate_of_a_unique_value_is_rejected() -> None:
    store = Interpreter()
    canary = Canary("c1", "front page", "docs", 60, {}, (), True, 0)
    put_row = store.run(crud.put(CANARIES, canary))
    with pytest.raises(Conflict, match="'c1' already has name 'front page'"):
        store.run(crud.put(CANARIES, Canary("c2", "front page", "docs", 60, {}, (), True, 0)))
    assert store.run(crud.put(CANARIES, put_row)).version == 2


def test_a_concurrently_taken_unique_value_is_rejected() -> None:
    store = Interpreter()
    store.meanwhile(crud.put(CANARIES, Canary("c1", "front page", "docs", 60, {}, (), True, 0)))
    with pytest.raises(Conflict):
        store.run(crud.put(CANARIES, Canary("c2", "front page", "docs", 60, {}, (), True, 0)))


def test_a_row_that_does_not_fit_its_table_is_invalid() -> None:
    store = Interpreter()
    with pytest.raises(Invalid, match="config must be map"):
        store.run(crud.put(SEARCH_UI_CONFIG, SearchUiConfig("docs", "text", 0)))  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="key"):
        store.run(crud.read(SEARCH_UI_CONFIG, ""))


def test_a_list_is_complete_although_pages_end_between_equal_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crud, "FIND_MAX", 4)
    store = Interpreter()
    times = [1, 1, 1, 2, 2, 2, 3, 4, 4, 5]
    for n, created_at in enumerate(times):
        store.run(crud.put(ALIASES, IndexAlias(f"a{n}", AliasKind.SINGLE, "x", (), created_at)))
    assert [alias.name for alias in store.run(crud.every(ALIASES))] == [f"a{n}" for n in range(10)]
    for n in range(10, 14):
        store.run(crud.put(ALIASES, IndexAlias(f"a{n}", AliasKind.SINGLE, "x", (), 6)))
    with pytest.raises(Invalid, match="equal in order"):
        store.run(crud.every(ALIASES))


def test_names_of_logs_cannot_be_mistaken_for_one_another() -> None:
    """Defect R24: a colon in a name made keys ambiguous."""
    assert log_name("cdc:overflow:<sink>", "a:b%") == "cdc:overflow:a%3Ab%25"
    with pytest.raises(Invalid):
        log_name("cdc:overflow:<sink>", "")
