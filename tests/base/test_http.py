"""A remedy becomes a status, and the headers that go with it."""

import json

import pytest

from argosy.base.errors import ArgosyError, Fenced, Invalid, NotOwner, Throttled, Unavailable
from argosy.base.http import error_response, json_response


@pytest.mark.parametrize(
    ("error", "status", "header"),
    [
        (Invalid("x"), 400, None),
        (NotOwner("x", hint="10.0.0.1:7000"), 421, ("x-argosy-owner", "10.0.0.1:7000")),
        (NotOwner("x"), 421, None),
        (Throttled("x", retry_after_s=1.2), 429, ("retry-after", "2")),
        (Unavailable("x"), 503, ("retry-after", "2")),
        (Fenced("x"), 503, ("retry-after", "2")),
    ],
)
def test_an_error_tells_its_remedy(error: ArgosyError, status: int, header: tuple[str, str] | None) -> None:
    response = error_response(error)
    told = json.loads(bytes(response.body))["error"]
    assert (response.status_code, told["status"], told["kind"]) == (status, status, type(error).__name__)
    extra = [(n, v) for n, v in response.headers.items() if n in ("x-argosy-owner", "retry-after")]
    assert extra == ([] if header is None else [header])


def test_secrets_in_a_message_are_masked() -> None:
    response = error_response(Unavailable("cannot reach redis://user:hush@10.0.0.1:6379"))
    assert b"hush" not in response.body
    assert b"10.0.0.1:6379" in response.body


def test_json_carries_status_and_headers() -> None:
    response = json_response({"a": 1}, 202, {"x-b": "c"})
    assert (response.status_code, bytes(response.body), response.headers["x-b"]) == (202, b'{"a":1}', "c")
