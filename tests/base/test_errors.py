"""Errors are classified by their remedy, and each has an HTTP status."""

import pytest

from argosy.base.errors import (
    ArgosyError,
    Conflict,
    Fenced,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    NotOwner,
    Throttled,
    Unauthorized,
    Unavailable,
)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Invalid("x"), 400),
        (Unauthorized("x"), 401),
        (Forbidden("x"), 403),
        (NotFound("x"), 404),
        (Conflict("x"), 409),
        (Gone("x"), 410),
        (NotOwner("x"), 421),
        (Throttled("x", retry_after_s=1), 429),
        (Unavailable("x"), 503),
        (Fenced("x"), 503),
    ],
)
def test_each_error_has_its_status_and_our_base_class(error: ArgosyError, status: int) -> None:
    assert error.status == status
    assert isinstance(error, ArgosyError)
    assert str(error) == "x"


def test_fenced_is_a_kind_of_unavailable_so_that_callers_who_only_retry_still_catch_it() -> None:
    assert issubclass(Fenced, Unavailable)


def test_not_owner_carries_the_hint_and_the_node() -> None:
    error = NotOwner("elsewhere", hint="10.0.0.1:7000", node="n1")
    assert (error.hint, error.node) == ("10.0.0.1:7000", "n1")
    assert NotOwner("nobody knows").hint is None


def test_throttled_has_a_retry_time() -> None:
    assert Throttled("later", retry_after_s=2.5).retry_after_s == 2.5
