"""Links to a node in the same process: the same calls without a network."""

from collections.abc import Mapping
from typing import Any

from argosy.base.clock import SystemClock
from argosy.jobs.grpc_services import api_service, silo_service
from argosy.jobs.ports import Broker
from argosy.jobs.rpc.call_context import Access, CallContext, Tenancy, traceparent
from argosy.jobs.rpc.status import OWNER_ADDRESS, CallError
from argosy.jobs.sdk.errors import error_from_status
from argosy.jobs.sdk.links import NodeLink, NodeLinks, RpcMethod
from argosy.jobs.silo.diagnostics import ProcessDiagnostics
from argosy.jobs.sql.engine import SqlEngine


class LocalLink:
    """Calls a broker directly; the caller's token is checked as on the wire."""

    def __init__(self, broker: Broker, *, with_tenants: bool = False, access: Access | None = None) -> None:
        # The same services as behind gRPC, called with the same messages: validation, tenancy and errors cannot differ
        # between an embedded broker, the HTTP routes of a node, and a remote client.
        tenancy = Tenancy(broker, is_on=with_tenants)
        silo = silo_service(
            broker, tenancy, engine=SqlEngine(SystemClock()), arrow=None, diagnostics=ProcessDiagnostics()
        )
        self._services = {service.name: service.methods for service in (silo, api_service(broker, tenancy))}
        self._access = access or Access()

    async def call(self, call: RpcMethod, request: Any, *, timeout_s: float, headers: Mapping[str, str]) -> Any:
        caller = self._access.admit(headers.get("authorization"))
        context = CallContext(caller, traceparent(headers.get("traceparent")), timeout_s)
        try:
            return await self._services[call.service][call.method].call(request, context)
        except CallError as error:
            # Through the code and back: the SDK sees the errors that it would see over the wire.
            raise error_from_status(error.code, error.details, dict(error.trailing).get(OWNER_ADDRESS, "")) from error


class LocalLinks:
    """The local node directly, other nodes over `others`, if there are any."""

    def __init__(self, local: LocalLink, address: str = "", others: NodeLinks | None = None) -> None:
        self._local = local
        self._address = address
        self._others = others

    def link(self, address: str) -> NodeLink:
        # An embedded broker has no address, and no other nodes.
        if self._others is None or address == self._address:
            return self._local
        return self._others.link(address)

    async def close(self) -> None:
        if self._others is not None:
            await self._others.close()
