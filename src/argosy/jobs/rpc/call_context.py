"""A request as the calls see it: who asks, whose jobs, which shard, and with what trace.

The rules of tenancy are here: with tenants every request names one, which must lie in the shard; without, none may.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from argosy.base.errors import Conflict, Invalid, NotFound, NotOwner
from argosy.base.hashing import hash64
from argosy.jobs.broker import Broker
from argosy.jobs.model import NO_TENANT, TENANT_CHARS_MAX
from argosy.jobs.ports import ShardCalls
from argosy.jobs.rpc.access import ANYBODY, Caller

NO_TENANTS = "tenant must not be provided: this broker knows no tenants"
SHARD_IDS_KEPT = 1024  # found to be well formed; every call names one
_SHARD_ID = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True)
class CallContext:
    """What is known of a call besides its message."""

    caller: Caller = ANYBODY
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
