"""Policies of an index: written at the expected version only."""

from dataclasses import replace

import pytest

from argosy.base.errors import Conflict, Invalid, NotFound
from argosy.registry import crud, policies
from argosy.registry.rows import RolloverPolicy
from argosy.registry.tables import ROLLOVER_POLICIES, SEARCH_UI_CONFIG, TTL_POLICIES
from tests.registry.interpreter import START_MS, Interpreter

POLICY = RolloverPolicy("logs", "logs-write", "logs-read", "logs-{YYYY-MM-DD}", {"max_docs": 9}, {}, {}, True)


def test_a_rollover_policy_is_edited_by_one_at_a_time() -> None:
    store = Interpreter()
    first = store.run(policies.put_rollover(POLICY))
    edited = store.run(policies.put_rollover(replace(first, is_enabled=False)))
    with pytest.raises(Conflict, match="version 2, not 1"):
        store.run(policies.put_rollover(replace(first, pattern="x")))
    assert store.run(crud.every(ROLLOVER_POLICIES)) == [edited]


def test_the_last_action_of_a_policy_is_stored_with_it() -> None:
    store = Interpreter()
    first = store.run(policies.put_rollover(POLICY))
    assert store.run(policies.record_rollover("logs")).last_action_at == START_MS
    noted = store.run(policies.record_rollover("logs", "no such alias"))
    assert (noted.last_error, noted.triggers) == ("no such alias", first.triggers)
    with pytest.raises(NotFound):
        store.run(policies.record_rollover("other"))


@pytest.mark.parametrize("wrong", [{"read_alias": "logs-write"}, {"pattern": ""}, {"write_alias": ""}])
def test_a_rollover_policy_needs_two_aliases_and_a_pattern(wrong: dict[str, str]) -> None:
    with pytest.raises(Invalid, match="rollover policy 'logs'"):
        Interpreter().run(policies.put_rollover(replace(POLICY, **wrong)))  # type: ignore[arg-type]


def test_a_search_page_is_configured() -> None:
    store = Interpreter()
    put = policies.put_search_ui
    assert store.run(put("docs", {"title": "Docs"}, expected_version=0)).updated_at == START_MS
    with pytest.raises(Conflict, match="already has 'docs'"):
        store.run(put("docs", {}, expected_version=0))
    assert store.run(put("docs", {"title": "More"})).version == 2
    with pytest.raises(Conflict, match="version 2, not 1"):
        store.run(put("docs", {}, expected_version=1))
    with pytest.raises(NotFound):
        store.run(put("logs", {}, expected_version=1))
    assert store.run(crud.delete(SEARCH_UI_CONFIG, "docs"))


def test_the_number_of_expiring_entries_of_an_index_is_bounded() -> None:
    store = Interpreter()
    put = policies.put_ttl
    stored = store.run(put("docs", sweep_interval_s=300, max_deletes_per_sweep=1000))
    assert store.run(crud.read(TTL_POLICIES, "docs")) == stored
    for interval, deletes in ((0, 1), (1, 0), (10**9, 1), (1, 10**9)):
        with pytest.raises(Invalid):
            store.run(put("docs", sweep_interval_s=interval, max_deletes_per_sweep=deletes))
