"""What the SDK needs beneath it: a way to each node."""

from collections.abc import Mapping
from typing import Any, Protocol

from argosy.jobs.sdk.calls import Call


class Link(Protocol):
    """A way to one node. What goes wrong is an error by remedy."""

    async def call(self, call: Call, request: Any, *, timeout_s: float, headers: Mapping[str, str]) -> Any: ...


class Links(Protocol):
    """The ways to all nodes, by address."""

    def link(self, address: str) -> Link:
        """Unavailable if the address is none."""
        ...

    async def close(self) -> None: ...
