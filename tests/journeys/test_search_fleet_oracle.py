"""The judge of the fleet's answers notices what is wrong with them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from argosy.gateway.v1 import responses
from argosy.search.index_set import IndexSet
from argosy.search.query import parse
from tests.journeys.search_fleet import make_origin
from tests.journeys.search_oracle import Oracle, complaints, options

QUERY = "anchor"


def told(oracle: Oracle, *names: str) -> dict[str, Any]:
    """What a fleet with these repositories would answer."""
    shelf = IndexSet(oracle.index(name) for name in names)
    answer = shelf.search_now(parse(QUERY).query, options(QUERY))
    shelf.close()
    said: dict[str, Any] = json.loads(msgspec.json.encode(responses.search_response(answer, QUERY)))
    return said


def without_a_file(answer: dict[str, Any]) -> None:
    answer["files"].pop()


def in_another_order(answer: dict[str, Any]) -> None:
    answer["files"].reverse()


def with_a_wrong_count(answer: dict[str, Any]) -> None:
    answer["stats"]["matches"] += 1


def missing_what_it_shows(answer: dict[str, Any]) -> None:
    answer["missing"] = [{"repository": "ship-01", "why": "unowned", "detail": "nobody holds it"}]


@pytest.fixture
def oracle(tmp_path: Path) -> Oracle:
    made = Oracle(tmp_path / "mirrors")
    for number in (1, 2):
        repo = make_origin(tmp_path / "origins", number)
        made.learn(repo.path.name, repo.path)
    return made


def test_a_right_answer_is_let_pass_and_so_is_one_that_says_what_it_lacks(oracle: Oracle) -> None:
    partial = told(oracle, "ship-02")
    missing_what_it_shows(partial)
    partial["complete"] = False
    assert complaints(oracle, [(QUERY, told(oracle, "ship-01", "ship-02")), (QUERY, partial)]) == []


@pytest.mark.parametrize("spoil", [without_a_file, in_another_order, with_a_wrong_count, missing_what_it_shows])
def test_a_wrong_answer_is_noticed(oracle: Oracle, spoil: Callable[[dict[str, Any]], None]) -> None:
    answer = told(oracle, "ship-01", "ship-02")
    spoil(answer)
    assert complaints(oracle, [(QUERY, answer)]) != []


def test_an_answer_that_lacks_a_repository_and_does_not_say_so_is_noticed(oracle: Oracle) -> None:
    assert len(complaints(oracle, [(QUERY, told(oracle, "ship-01"))])) == 1


def test_time_that_goes_back_is_noticed(oracle: Oracle) -> None:
    before = told(oracle, "ship-01", "ship-02")
    oracle.drop("ship-02")
    after = told(oracle, "ship-01")
    assert complaints(oracle, [(QUERY, before), (QUERY, after), (QUERY, after)]) == []
    [wrong] = complaints(oracle, [(QUERY, after), (QUERY, before)])
    assert "goes back in time" in wrong
