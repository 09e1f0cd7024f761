"""Tokens and keys: who is let in, and as whom."""

import pytest

from argosy.base.errors import Forbidden, Invalid, Unauthorized
from argosy.jobs.rpc.call_context import UNRESTRICTED, Access, Caller

TOKEN, OTHER_TOKEN, KEY = "token-of-all", "token-too-of-all", "key-of-acme"


def test_without_tokens_everybody_may_ask() -> None:
    assert Access().admit(None) == UNRESTRICTED


def test_a_token_opens_everything_and_a_key_one_tenant() -> None:
    access = Access([TOKEN, OTHER_TOKEN], {KEY: "acme"})
    assert access.admit(f"Bearer {TOKEN}") == access.admit(f"Bearer {OTHER_TOKEN}") == UNRESTRICTED
    assert access.admit(f"Bearer {KEY}") == Caller("acme")


@pytest.mark.parametrize(
    "given", ["Bearer wrong-token", TOKEN, f"bearer {TOKEN}", "", f"Bearer {TOKEN} ", "Bearer ü\ud800"]
)
def test_whoever_shows_no_token_is_not_let_in(given: str) -> None:
    with pytest.raises(Unauthorized, match="invalid auth token"):
        Access([TOKEN]).admit(given)


def test_whoever_shows_nothing_is_told_what_is_missing() -> None:
    with pytest.raises(Unauthorized, match="missing authorization header"):
        Access([], {KEY: "acme"}).admit(None)


def test_secrets_that_are_none() -> None:
    for tokens, keys in ((["short"], {}), ([TOKEN], {"short": "acme"}), ([KEY], {KEY: "acme"})):
        with pytest.raises(Invalid) as caught:
            Access(tokens, keys)
        assert not any(secret in str(caught.value) for secret in (*tokens, *keys))


def test_keys_as_settings_write_them() -> None:
    access = Access.of([TOKEN], [f"acme={KEY}", "zeta=key=with=signs"])
    assert access.admit(f"Bearer {KEY}") == Caller("acme")
    assert access.admit("Bearer key=with=signs") == Caller("zeta")
    for written in ([KEY], [f"={KEY}"], ["acme="], [f"acme={KEY}", f"zeta={KEY}"]):
        with pytest.raises(Invalid):
            Access.of([], written)


def test_a_key_does_what_concerns_its_tenant() -> None:
    Caller("acme").check_tenant("acme")
    UNRESTRICTED.check_all_tenants("do anything")
    with pytest.raises(Forbidden, match="not for tenant"):
        Caller("acme").check_tenant("zeta")
    with pytest.raises(Forbidden, match="cannot lease tasks"):
        Caller("acme").check_all_tenants("lease tasks")
