"""The oracle of the fleet tests detects every kind of wrong response."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from argosy.gateway.v1 import responses
from argosy.search.index_set import IndexSet
from argosy.search.query import parse
from tests.journeys.search_fleet import create_origin
from tests.journeys.search_oracle import Oracle, find_violations, options

QUERY = "anchor"


def fleet_response(oracle: Oracle, *names: str) -> dict[str, Any]:
    """The response of a fleet with these repositories."""
    shelf = IndexSet(oracle.index(name) for name in names)
    answer = shelf.search_now(parse(QUERY).query, options(QUERY))
    shelf.close()
    body: dict[str, Any] = json.loads(msgspec.json.encode(responses.search_response(answer, QUERY)))
    return body


def drop_file(answer: dict[str, Any]) -> None:
    answer["files"].pop()


def reorder(answer: dict[str, Any]) -> None:
    answer["files"].reverse()


def change_count(answer: dict[str, Any]) -> None:
    answer["stats"]["matches"] += 1


def mark_shown_missing(answer: dict[str, Any]) -> None:
    answer["missing"] = [{"repository": "ship-01", "why": "unowned", "detail": "no node holds it"}]


@pytest.fixture
def oracle(tmp_path: Path) -> Oracle:
    created = Oracle(tmp_path / "mirrors")
    for number in (1, 2):
        repo = create_origin(tmp_path / "origins", number)
        created.learn(repo.path.name, repo.path)
    return created


def test_correct_complete_and_partial_responses_are_accepted(oracle: Oracle) -> None:
    partial = fleet_response(oracle, "ship-02")
    mark_shown_missing(partial)
    partial["complete"] = False
    assert find_violations(oracle, [(QUERY, fleet_response(oracle, "ship-01", "ship-02")), (QUERY, partial)]) == []


@pytest.mark.parametrize("spoil", [drop_file, reorder, change_count, mark_shown_missing])
def test_a_wrong_response_is_reported(oracle: Oracle, spoil: Callable[[dict[str, Any]], None]) -> None:
    answer = fleet_response(oracle, "ship-01", "ship-02")
    spoil(answer)
    assert find_violations(oracle, [(QUERY, answer)]) != []


def test_an_undeclared_missing_repository_is_reported(oracle: Oracle) -> None:
    assert len(find_violations(oracle, [(QUERY, fleet_response(oracle, "ship-01"))])) == 1


def test_an_older_version_after_a_newer_one_is_reported(oracle: Oracle) -> None:
    before = fleet_response(oracle, "ship-01", "ship-02")
    oracle.drop("ship-02")
    after = fleet_response(oracle, "ship-01")
    assert find_violations(oracle, [(QUERY, before), (QUERY, after), (QUERY, after)]) == []
    [wrong] = find_violations(oracle, [(QUERY, after), (QUERY, before)])
    assert "goes back in time" in wrong
