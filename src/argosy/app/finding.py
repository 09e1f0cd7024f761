"""Finds at the front door of a process that has an indexer of its own, answered without a network.

The indexer's other surfaces stay on their own port: who may announce, and who may steer, is not for everybody who may
search.
"""

from collections.abc import Callable, Sequence

from starlette.routing import BaseRoute, Route

from argosy.base.clock import SystemClock
from argosy.base.metrics import Metrics
from argosy.gateway.ui.holders import Holder
from argosy.gateway.ui.links import folder_url
from argosy.ipni.formats.multihash import SHA2_256, wrap
from argosy.ipni.ports import Indexer
from argosy.ipni.publish.labels import label_of
from argosy.ipni.web.service import find_app

PATHS = (
    "/cid/{name:path}",
    "/encrypted/{name:path}",
    "/health",
    "/ipni/v0/sample/{name:path}",
    "/metadata/{name:path}",
    "/multihash",
    "/multihash/{name:path}",
    "/providers",
    "/providers/{name:path}",
    "/routing/v1/{name:path}",
)


def find_routes(indexer: Indexer, *, metrics: Metrics) -> list[BaseRoute]:
    """For the application at the door; what its pages are about, such as `/`, stays theirs."""
    find = find_app(indexer, clock=SystemClock(), metrics=metrics)
    return [Route(path, find) for path in PATHS]


class IndexedHolders:
    """Implements `Holders` of the pages; a repository that this fleet knows has a page here."""

    def __init__(self, indexer: Indexer, is_known: Callable[[str], bool]) -> None:
        self._indexer = indexer
        self._is_known = is_known

    async def holders(self, digest: bytes) -> Sequence[Holder]:
        [found] = await self._indexer.find([wrap(SHA2_256, digest)])
        labels = [(label_of(result.metadata), result.provider.id) for result in found]
        return [
            Holder(provider)
            if label is None
            else Holder(label.name, label.version, folder_url(label.name) if self._is_known(label.name) else "")
            for label, provider in labels
        ]
