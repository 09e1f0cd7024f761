"""Who may ask: bearer tokens for all of a broker, and keys that open one tenant only."""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from argosy.base.errors import Forbidden, Invalid, Unauthorized

SECRET_CHARS_MIN = 8


@dataclass(frozen=True)
class Caller:
    """Somebody who was let in. With a `tenant`, only that tenant's jobs are theirs."""

    tenant: str | None = None

    def check_tenant(self, tenant: str) -> None:
        if self.tenant is not None and tenant != self.tenant:
            raise Forbidden(f"this key opens another tenant than {tenant!r}")

    def check_whole(self, what: str) -> None:
        """For what concerns all tenants."""
        if self.tenant is not None:
            raise Forbidden(f"a tenant's key cannot {what}: use a token of the broker")


ANYBODY = Caller()


class Access:
    """Tokens and keys. Where neither is configured, everybody may ask for everything."""

    def __init__(self, tokens: Sequence[str] = (), tenant_keys: Mapping[str, str] | None = None) -> None:
        """`tenant_keys` has the tenant of each key; no secret is ever shown."""
        keys = dict(tenant_keys or {})
        if any(len(secret) < SECRET_CHARS_MIN for secret in (*tokens, *keys)):
            raise Invalid(f"a token must have at least {SECRET_CHARS_MIN} characters")
        if set(tokens) & set(keys):
            raise Invalid("a token of the broker cannot also be a tenant's key: make another")
        self._callers = [(f"Bearer {token}".encode(), ANYBODY) for token in tokens]
        self._callers += [(f"Bearer {key}".encode(), Caller(tenant)) for key, tenant in keys.items()]

    @classmethod
    def of(cls, tokens: Sequence[str], tenant_keys: Sequence[str]) -> "Access":
        """As settings write them: each of `tenant_keys` is TENANT=KEY."""
        keys: dict[str, str] = {}
        for written in tenant_keys:
            tenant, is_one, key = written.partition("=")
            if not tenant or not is_one or key in keys:
                raise Invalid("a tenant's key is written TENANT=KEY, and opens one tenant only")
            keys[key] = tenant
        return cls(tokens, keys)

    def admit(self, authorization: str | None) -> Caller:
        """Takes equally long whichever secret fits."""
        if not self._callers:
            return ANYBODY
        if authorization is None:
            raise Unauthorized("missing authorization header")
        given = authorization.encode(errors="replace")
        found = [caller for expected, caller in self._callers if hmac.compare_digest(given, expected)]
        if not found:
            raise Unauthorized("invalid auth token")
        return found[0]
