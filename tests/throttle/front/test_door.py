"""Who is asked at all, and for what."""

from typing import Any

import pytest

from argosy.base.errors import Invalid
from argosy.throttle.front.calls import AsgiCall
from argosy.throttle.front.door import ANONYMOUS, Asked, Door
from argosy.throttle.front.extract import (
    ID_LENGTH_MAX,
    all_of,
    by_address,
    by_api_key,
    by_header,
    by_path,
    first_of,
)
from argosy.throttle.model import COST_MAX
from tests.throttle.front.stage import scope_of


def ask(door: Door, path: str = "/") -> Asked | None:
    return door.ask(AsgiCall(scope_of(path)))


def test_clients_are_told_apart_by_address_unless_said_otherwise() -> None:
    assert ask(Door(None, None, ())) == Asked("address:192.0.2.1", 1.0)


def test_clients_that_cannot_be_told_apart_are_one() -> None:
    assert ask(Door(lambda _: None, None, ())) == Asked(ANONYMOUS, 1.0)


def test_a_long_id_of_anybodys_own_is_bounded() -> None:
    asked = ask(Door(lambda _: "x" * 5000, None, ()))
    assert asked is not None
    assert len(asked.client) <= ID_LENGTH_MAX


@pytest.mark.parametrize("path", ["/health", "/health/", "/health/live", "/static/a/b.css"])
def test_an_exempt_path_and_all_beneath_it_pass_unasked(path: str) -> None:
    assert ask(Door(None, None, ["/health", "/static/"]), path) is None


@pytest.mark.parametrize("path", ["/", "/healthy", "/api/health", "/health/../api", "/health//api", "/health/./x"])
def test_no_other_path_passes_by_looking_like_an_exempt_one(path: str) -> None:
    assert ask(Door(None, None, ["/health", "/static/"]), path) is not None


def test_a_request_may_cost_more_than_one_or_nothing() -> None:
    assert ask(Door(None, lambda _: 2.5, ())) == Asked("address:192.0.2.1", 2.5)
    assert ask(Door(None, lambda _: 10 * COST_MAX, ())) == Asked("address:192.0.2.1", COST_MAX)
    assert ask(Door(None, lambda _: 0, ())) is None


@pytest.mark.parametrize("cost", [-1.0, float("nan")])
def test_a_cost_that_is_none_is_an_error(cost: float) -> None:
    with pytest.raises(Invalid, match="cost_of"):
        ask(Door(None, lambda _: cost, ()))


@pytest.mark.parametrize("exempt", ["/health", ["health"], ["/"], [""]])
def test_exempt_paths_are_a_list_of_paths(exempt: list[str]) -> None:
    with pytest.raises(Invalid, match="exempt"):
        Door(None, None, exempt)


@pytest.mark.parametrize("maker", [by_address, by_api_key, by_header, by_path, first_of, all_of])
def test_an_extractor_that_was_not_made_is_refused_before_the_first_request(maker: Any) -> None:
    with pytest.raises(Invalid, match=rf"call it, client_of={maker.__name__}\("):
        Door(maker, None, ())


def test_a_name_is_no_extractor() -> None:
    anything: Any = "x-client"
    with pytest.raises(Invalid, match="client_of is a function from a call to a client's id, not 'x-client'"):
        Door(anything, None, ())


def test_an_id_that_is_a_number_is_told() -> None:
    number: Any = 7
    with pytest.raises(Invalid, match="a client's id is text or bytes, not 7: mend the function client_of"):
        ask(Door(lambda _: number, None, ()))
