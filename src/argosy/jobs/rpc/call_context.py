"""A request as the calls see it: who asks, whose jobs, which shard, and with what trace.

The rules of tenancy are here: with tenants every request names one, which must lie in the shard; without, none may.
"""

import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from argosy.base.errors import Conflict, Forbidden, Invalid, NotFound, NotOwner, Unauthorized
from argosy.base.hashing import hash64
from argosy.jobs.model import NO_TENANT, TENANT_CHARS_MAX
from argosy.jobs.ports import Broker, ShardCalls

SECRET_CHARS_MIN = 8


@dataclass(frozen=True)
class Caller:
    """Somebody who was let in. With a `tenant`, only that tenant's jobs are theirs."""

    tenant: str | None = None

    def check_tenant(self, tenant: str) -> None:
        if self.tenant is not None and tenant != self.tenant:
            raise Forbidden(f"this key opens another tenant than {tenant!r}")

    def check_all_tenants(self, what: str) -> None:
        """For what concerns all tenants."""
        if self.tenant is not None:
            raise Forbidden(f"a tenant's key cannot {what}: use a token of the broker")


UNRESTRICTED = Caller()


class Access:
    """Tokens and keys. Where neither is configured, everybody may ask for everything."""

    def __init__(self, tokens: Sequence[str] = (), tenant_keys: Mapping[str, str] | None = None) -> None:
        """`tenant_keys` has the tenant of each key; no secret is ever shown."""
        keys = dict(tenant_keys or {})
        if any(len(secret) < SECRET_CHARS_MIN for secret in (*tokens, *keys)):
            raise Invalid(f"a token must have at least {SECRET_CHARS_MIN} characters")
        if set(tokens) & set(keys):
            raise Invalid("a token of the broker cannot also be a tenant's key: make another")
        self._callers = [(f"Bearer {token}".encode(), UNRESTRICTED) for token in tokens]
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
            return UNRESTRICTED
        if authorization is None:
            raise Unauthorized("missing authorization header")
        given = authorization.encode(errors="replace")
        found = [caller for expected, caller in self._callers if hmac.compare_digest(given, expected)]
        if not found:
            raise Unauthorized("invalid auth token")
        return found[0]


NO_TENANTS = "tenant must not be provided: this broker knows no tenants"
SHARD_IDS_KEPT = 1024  # found to be well formed; every call names one
_SHARD_ID = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True)
class CallContext:
    """What is known of a call besides its message."""

    caller: Caller = UNRESTRICTED
    trace: str = ""  # W3C traceparent, "" if there was none or a bad one
    left_s: float | None = None  # until the caller's deadline


def traceparent(header: str | None) -> str:
    return header if header is not None and _TRACEPARENT.fullmatch(header) else ""


class Tenancy:
    """Whose jobs a request is about."""

    def __init__(self, broker: Broker, *, is_on: bool) -> None:
        self._broker = broker
        self.is_on = is_on

    def tenant(self, context: CallContext, given: str) -> str:
        """The tenant of a client's request; "" is none."""
        if self.is_on and not given:
            raise Invalid("tenant id required")
        return self._check_tenant(context, given)

    def tenant_of_task(self, given: str) -> None:
        """A worker's request: it has been checked that the caller may ask for all tenants."""
        if self.is_on and not given:
            raise Invalid("tenant_id is required for worker operations: send that of the task")
        self._check_tenant(CallContext(), given)

    def tenant_or_all(self, context: CallContext, given: str) -> str | None:
        """For what may be about all tenants; a tenant's key asks about its own."""
        if given:
            return self._check_tenant(context, given)
        return context.caller.tenant

    def _check_tenant(self, context: CallContext, given: str) -> str:
        if not self.is_on:
            if given:
                raise Conflict(NO_TENANTS)
            context.caller.check_tenant(NO_TENANT)
            return NO_TENANT
        if len(given) > TENANT_CHARS_MAX or given == NO_TENANT:
            raise Invalid("invalid tenant id")
        context.caller.check_tenant(given)
        return given

    def shard(self, shard_id: str, tenant: str | None = None) -> ShardCalls:
        """The shard, if it is here and the tenant in its range."""
        check_shard_id(shard_id)
        try:
            shard = self._broker.shard(shard_id)
        except NotFound as error:
            raise NotOwner(str(error)) from error  # for a client it is one like the other: it has an old map
        if self.is_on and tenant:
            self._check_range(shard_id, tenant)
        return shard

    def _check_range(self, shard_id: str, tenant: str) -> None:
        if self._broker.shard_of(tenant) == shard_id:
            return
        place = next((place for place in self._broker.topology().shards if place.id == shard_id), None)
        shown = f"[{place.range_start}, {place.range_end})" if place else "unknown"
        raise Conflict(
            f"tenant '{tenant}' is not within shard {shard_id} range {shown} "
            f"(its hash is {hash64(tenant):016x}); refresh topology and retry"
        )


@lru_cache(SHARD_IDS_KEPT)
def check_shard_id(shard_id: str) -> None:
    if not _SHARD_ID.fullmatch(shard_id):
        raise Invalid(f"invalid shard ID: {shard_id[:64]!r} is no UUID")
