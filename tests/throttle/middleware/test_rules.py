"""Which requests are checked, and with which id and cost."""

from typing import Any

import pytest

from argosy.base.errors import Invalid
from argosy.throttle.middleware.extractors import (
    ID_LENGTH_MAX,
    AsgiRequest,
    all_of,
    by_address,
    by_api_key,
    by_header,
    by_path,
    first_of,
)
from argosy.throttle.middleware.rules import ANONYMOUS, AdmissionRequest, RequestRules
from argosy.throttle.model import COST_MAX
from tests.throttle.middleware.stage import scope_of


def classify(rules: RequestRules, path: str = "/") -> AdmissionRequest | None:
    return rules.classify(AsgiRequest(scope_of(path)))


def test_clients_are_distinguished_by_address_by_default() -> None:
    assert classify(RequestRules(None, None, ())) == AdmissionRequest("address:192.0.2.1", 1.0)


def test_indistinguishable_clients_share_one_id() -> None:
    assert classify(RequestRules(lambda _: None, None, ())) == AdmissionRequest(ANONYMOUS, 1.0)


def test_a_long_id_of_anybodys_own_is_bounded() -> None:
    admission = classify(RequestRules(lambda _: "x" * 5000, None, ()))
    assert admission is not None
    assert len(admission.client) <= ID_LENGTH_MAX


@pytest.mark.parametrize("path", ["/health", "/health/", "/health/live", "/static/a/b.css"])
def test_an_exempt_path_and_all_below_it_pass_without_a_check(path: str) -> None:
    assert classify(RequestRules(None, None, ["/health", "/static/"]), path) is None


@pytest.mark.parametrize("path", ["/", "/healthy", "/api/health", "/health/../api", "/health//api", "/health/./x"])
def test_no_other_path_passes_by_looking_like_an_exempt_one(path: str) -> None:
    assert classify(RequestRules(None, None, ["/health", "/static/"]), path) is not None


def test_a_request_may_cost_more_than_one_or_nothing() -> None:
    assert classify(RequestRules(None, lambda _: 2.5, ())) == AdmissionRequest("address:192.0.2.1", 2.5)
    assert classify(RequestRules(None, lambda _: 10 * COST_MAX, ())) == AdmissionRequest("address:192.0.2.1", COST_MAX)
    assert classify(RequestRules(None, lambda _: 0, ())) is None


@pytest.mark.parametrize("cost", [-1.0, float("nan")])
def test_an_invalid_cost_is_an_error(cost: float) -> None:
    with pytest.raises(Invalid, match="cost_of"):
        classify(RequestRules(None, lambda _: cost, ()))


@pytest.mark.parametrize("exempt", ["/health", ["health"], ["/"], [""]])
def test_exempt_paths_are_a_list_of_paths(exempt: list[str]) -> None:
    with pytest.raises(Invalid, match="exempt"):
        RequestRules(None, None, exempt)


@pytest.mark.parametrize("maker", [by_address, by_api_key, by_header, by_path, first_of, all_of])
def test_an_extractor_factory_in_place_of_an_extractor_is_rejected_at_once(maker: Any) -> None:
    with pytest.raises(Invalid, match=rf"call it: client_of={maker.__name__}\("):
        RequestRules(maker, None, ())


def test_a_name_is_no_extractor() -> None:
    anything: Any = "x-client"
    with pytest.raises(
        Invalid, match="client_of must be a function from a request to the id of its client, not 'x-client'"
    ):
        RequestRules(anything, None, ())


def test_a_numeric_id_is_reported() -> None:
    number: Any = 7
    with pytest.raises(Invalid, match="a client id is text or bytes, not 7; fix the function client_of"):
        classify(RequestRules(lambda _: number, None, ()))
