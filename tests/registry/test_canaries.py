"""Canaries: identified by id, with unique names, deleted with their runs."""

from dataclasses import replace

import pytest

from argosy.base.errors import Conflict, Invalid, NotFound
from argosy.registry import canaries
from argosy.registry.rows import Canary, RunStatus
from argosy.registry.transaction import Transaction
from tests.registry.interpreter import START_MS, Interpreter


def create(canary_id: str, name: str, **given: object) -> Transaction[Canary]:
    values: dict[str, object] = {
        "index_uid": "docs",
        "interval_s": 60,
        "query": {"q": "lease"},
        "assertions": [{"type": "min_hits", "value": 3}],
    }
    return canaries.create(canary_id, name, **(values | given))  # type: ignore[arg-type]


def test_a_canary_is_found_by_id_and_by_name() -> None:
    """Defect R14: one backend keyed by name, the other by id."""
    store = Interpreter()
    canary = store.run(create("c1", "front page"))
    assert (canary.created_at, canary.is_enabled, canary.version) == (START_MS, True, 1)
    assert store.run(canaries.read("c1")) == store.run(canaries.read_by_name("front page")) == canary
    assert store.run(canaries.read_by_name("c1")) is None
    assert canaries.assertions_of(canary) == ({"type": "min_hits", "value": 3},)


def test_ids_and_names_are_unique() -> None:
    store = Interpreter()
    store.run(create("c1", "front page"))
    with pytest.raises(Conflict, match="'c1' already exists"):
        store.run(create("c1", "other"))
    with pytest.raises(Conflict, match="already has name"):
        store.run(create("c2", "front page"))


def test_a_canary_is_changed_at_the_version_that_was_read() -> None:
    store = Interpreter()
    canary = store.run(create("c1", "front page"))
    renamed = store.run(canaries.update(replace(canary, name="start page")))
    assert store.run(canaries.read_by_name("start page")) == renamed
    assert store.run(canaries.read_by_name("front page")) is None
    with pytest.raises(Conflict, match="version"):
        store.run(canaries.update(canary))
    with pytest.raises(Invalid, match="version 0"):
        store.run(canaries.update(replace(canary, version=0)))


def test_canaries_that_run_are_listed_apart() -> None:
    store = Interpreter()
    for n in range(3):
        store.run(create(f"c{n}", f"name {n}"))
    store.run(canaries.enable("c1", False))
    listed = {flag: store.run(canaries.everything(is_enabled=flag)) for flag in (None, True, False)}
    assert {flag: [c.canary_id for c in found] for flag, found in listed.items()} == {
        None: ["c0", "c1", "c2"],
        True: ["c0", "c2"],
        False: ["c1"],
    }


def test_runs_go_with_their_canary() -> None:
    store = Interpreter()
    store.run(create("c1", "front page"))
    store.run(canaries.append_run("c1", RunStatus.PASS, 3))
    assert store.run(canaries.remove("c1"))
    assert not store.run(canaries.remove("c1"))
    assert store.run(canaries.newest_runs("c1")) == ()
    with pytest.raises(NotFound):
        store.run(canaries.append_run("c1", RunStatus.PASS, 3))
    with pytest.raises(NotFound):
        store.run(canaries.enable("c1", True))


@pytest.mark.parametrize(
    "given",
    [{"interval_s": 0}, {"assertions": [{"value": 1}]}, {"assertions": [{"type": "x"}] * 65}, {"interval_s": 10**9}],
)
def test_bad_input_is_rejected(given: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        Interpreter().run(create("c1", "name", **given))
    with pytest.raises(Invalid, match="200 characters"):
        Interpreter().run(create("c1", "n" * 201))
