"""Tokens and keys: authentication, and the caller's identity."""

import pytest

from argosy.base.errors import Forbidden, Invalid, Unauthorized
from argosy.jobs.rpc.call_context import UNRESTRICTED, Access, Caller

TOKEN, OTHER_TOKEN, KEY = "token-of-all", "token-too-of-all", "key-of-acme"


def test_without_tokens_every_caller_is_accepted() -> None:
    assert Access().admit(None) == UNRESTRICTED


def test_a_token_grants_everything_and_a_key_one_tenant() -> None:
    access = Access([TOKEN, OTHER_TOKEN], {KEY: "acme"})
    assert access.admit(f"Bearer {TOKEN}") == access.admit(f"Bearer {OTHER_TOKEN}") == UNRESTRICTED
    assert access.admit(f"Bearer {KEY}") == Caller("acme")


@pytest.mark.parametrize(
    "given", ["Bearer wrong-token", TOKEN, f"bearer {TOKEN}", "", f"Bearer {TOKEN} ", "Bearer ü\ud800"]
)
def test_an_invalid_token_is_rejected(given: str) -> None:
    with pytest.raises(Unauthorized, match="invalid auth token"):
        Access([TOKEN]).admit(given)


def test_a_missing_authorization_header_is_reported() -> None:
    with pytest.raises(Unauthorized, match="missing authorization header"):
        Access([], {KEY: "acme"}).admit(None)


def test_invalid_secrets_are_rejected() -> None:
    for tokens, keys in ((["short"], {}), ([TOKEN], {"short": "acme"}), ([KEY], {KEY: "acme"})):
        with pytest.raises(Invalid) as caught:
            Access(tokens, keys)
        assert not any(secret in str(caught.value) for secret in (*tokens, *keys))


def test_keys_are_parsed_from_settings() -> None:
    access = Access.of([TOKEN], [f"acme={KEY}", "zeta=key=with=signs"])
    assert access.admit(f"Bearer {KEY}") == Caller("acme")
    assert access.admit("Bearer key=with=signs") == Caller("zeta")
    for written in ([KEY], [f"={KEY}"], ["acme="], [f"acme={KEY}", f"zeta={KEY}"]):
        with pytest.raises(Invalid):
            Access.of([], written)


def test_a_key_is_limited_to_its_tenant() -> None:
    Caller("acme").check_tenant("acme")
    UNRESTRICTED.check_all_tenants("do anything")
    with pytest.raises(Forbidden, match="not for tenant"):
        Caller("acme").check_tenant("zeta")
    with pytest.raises(Forbidden, match="cannot lease tasks"):
        Caller("acme").check_all_tenants("lease tasks")
