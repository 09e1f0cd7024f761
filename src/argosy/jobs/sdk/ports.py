"""What the SDK needs beneath it: a way to each node."""

from collections.abc import Mapping
from typing import Any, Protocol

from argosy.jobs.sdk.calls import RpcMethod


class NodeLink(Protocol):
    """A way to one node. What goes wrong is an error by remedy."""

    async def call(self, call: RpcMethod, request: Any, *, timeout_s: float, headers: Mapping[str, str]) -> Any: ...


class NodeLinks(Protocol):
    """The ways to all nodes, by address."""

    def link(self, address: str) -> NodeLink:
        """Unavailable if the address is none."""
        ...

    async def close(self) -> None: ...
