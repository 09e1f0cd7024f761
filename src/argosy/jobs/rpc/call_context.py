"""The context of a call: the caller, the tenant, the shard and the trace.

The rules of tenancy are here: with tenants every request names one, which must lie in the shard's range; without, none
may. Without the second rule a client that is configured for tenants would share one queue with all others and never
notice.
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
    """An authenticated caller; with a `tenant` it may only access that tenant's jobs."""

    tenant: str | None = None

    def check_tenant(self, tenant: str) -> None:
        if self.tenant is not None and tenant != self.tenant:
            raise Forbidden(f"permission denied: this key is not for tenant {tenant!r}")

    def check_all_tenants(self, action: str) -> None:
        """Raises Forbidden unless the caller may access all tenants."""
        if self.tenant is not None:
            raise Forbidden(f"permission denied: a tenant's key cannot {action}; use a token of the broker")


UNRESTRICTED = Caller()


class Access:
    """Tokens and keys. If neither is configured, no call needs one."""

    def __init__(self, tokens: Sequence[str] = (), tenant_keys: Mapping[str, str] | None = None) -> None:
        """`tenant_keys` maps keys to tenants. No message contains a secret."""
        keys = dict(tenant_keys or {})
        # An empty or short secret is a mistake in a deployment, which would otherwise let everyone in.
        if any(len(secret) < SECRET_CHARS_MIN for secret in (*tokens, *keys)):
            raise Invalid(f"a token must have at least {SECRET_CHARS_MIN} characters")
        # The first match would decide, and a tenant could get the rights of the broker.
        if set(tokens) & set(keys):
            raise Invalid("a token of the broker is also a tenant's key; use another one")
        self._callers = [(f"Bearer {token}".encode(), UNRESTRICTED) for token in tokens]
        self._callers += [(f"Bearer {key}".encode(), Caller(tenant)) for key, tenant in keys.items()]

    @classmethod
    def of(cls, tokens: Sequence[str], tenant_keys: Sequence[str]) -> "Access":
        """From settings; each of `tenant_keys` is TENANT=KEY."""
        keys: dict[str, str] = {}
        for written in tenant_keys:
            tenant, is_one, key = written.partition("=")
            if not tenant or not is_one or key in keys:
                raise Invalid("each of tenant_keys must be TENANT=KEY, and a key can be for one tenant only")
            keys[key] = tenant
        return cls(tokens, keys)

    def admit(self, authorization: str | None) -> Caller:
        """The caller of a header. Compares with all secrets, so the time does not tell which one fits."""
        if not self._callers:
            return UNRESTRICTED
        if authorization is None:
            raise Unauthorized("missing authorization header")
        given = authorization.encode(errors="replace")
        # All are compared, also after a match: the time must not show which secret fits, or how much of one.
        found = [caller for expected, caller in self._callers if hmac.compare_digest(given, expected)]
        if not found:
            raise Unauthorized("invalid auth token")
        return found[0]


NO_TENANTS = "tenant must not be provided: this broker knows no tenants"
SHARD_IDS_CACHED = 1024  # checked ids: every call names one, and a match costs more than a lookup
_SHARD_ID = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True)
class CallContext:
    """What a call has besides its message."""

    caller: Caller = UNRESTRICTED
    trace: str = ""  # W3C traceparent; "" if there was none, or a malformed one
    remaining_s: float | None = None  # until the caller's deadline


def traceparent(header: str | None) -> str:
    return header if header is not None and _TRACEPARENT.fullmatch(header) else ""


class Tenancy:
    """Determines the tenant and the shard of a request."""

    def __init__(self, broker: Broker, *, is_on: bool) -> None:
        self._broker = broker
        self.is_on = is_on

    def tenant(self, context: CallContext, given: str) -> str:
        """The tenant of a client's request; "" is none."""
        if self.is_on and not given:
            raise Invalid("tenant id required")
        return self._check_tenant(context, given)

    def tenant_of_task(self, given: str) -> None:
        """Checks the tenant of a worker's request, whose caller may access all tenants."""
        if self.is_on and not given:
            raise Invalid("tenant_id is required for worker operations: send that of the task")
        self._check_tenant(CallContext(), given)

    def tenant_or_all(self, context: CallContext, given: str) -> str | None:
        """The tenant, or None for all tenants; with a tenant's key always that tenant."""
        if given:
            return self._check_tenant(context, given)
        return context.caller.tenant

    def _check_tenant(self, context: CallContext, given: str) -> str:
        if not self.is_on:
            if given:
                raise Conflict(NO_TENANTS)
            context.caller.check_tenant(NO_TENANT)
            return NO_TENANT
        # "-" is stored for jobs of a broker without tenants: as a tenant's name it would reach those jobs.
        if len(given) > TENANT_CHARS_MAX or given == NO_TENANT:
            raise Invalid("invalid tenant id")
        context.caller.check_tenant(given)
        return given

    def shard(self, shard_id: str, tenant: str | None = None) -> ShardCalls:
        """The shard, if this node serves it and the tenant is in its range."""
        # The format first: clients of silo.v1 distinguish a malformed id from a shard that is elsewhere.
        check_shard_id(shard_id)
        try:
            shard = self._broker.shard(shard_id)
        except NotFound as error:
            raise NotOwner(str(error)) from error  # a shard that was split: the client's map is old in either case
        if self.is_on and tenant:
            self._check_range(shard_id, tenant)
        return shard

    def _check_range(self, shard_id: str, tenant: str) -> None:
        if self._broker.shard_of(tenant) == shard_id:
            return
        shard = next((shard for shard in self._broker.topology().shards if shard.id == shard_id), None)
        range_text = f"[{shard.range_start}, {shard.range_end})" if shard else "unknown"
        raise Conflict(
            f"tenant '{tenant}' is not within shard {shard_id} range {range_text} "
            f"(its hash is {hash64(tenant):016x}); refresh topology and retry"
        )


@lru_cache(SHARD_IDS_CACHED)
def check_shard_id(shard_id: str) -> None:
    if not _SHARD_ID.fullmatch(shard_id):
        raise Invalid(f"invalid shard ID: {shard_id[:64]!r} is no UUID")
