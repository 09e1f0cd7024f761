"""The operations of the v1 API as data: routes and the OpenAPI document are both generated from this table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from argosy.gateway.model import FleetStatus
from argosy.gateway.v1 import model as v1
from argosy.gateway.v1.requests import AddRepositoryRequest, FileParams, FolderParams, RepositoriesParams, SearchParams

NDJSON = "application/x-ndjson"
EVENTS = "text/event-stream"


@dataclass(frozen=True)
class Operation:
    """`errors` lists statuses besides 400, 429 and 503, which every operation may return."""

    id: str
    method: str
    path: str
    summary: str
    parameters: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    response: Any = None
    status: int = 200
    events: Any = None  # streamed if the client accepts a streaming media type
    needs_admin: bool = False
    errors: tuple[int, ...] = ()
    parameters_example: Mapping[str, Any] = field(default_factory=dict)
    body_example: Mapping[str, Any] = field(default_factory=dict)

    @property
    def route(self) -> str:
        """The path in the router's syntax: repository names contain slashes."""
        return self.path.replace("{name}", "{name:path}")


_SEARCH = {"q": "lang:go func main", "files": 10, "context": 2}
_REPOSITORY = {"url": "https://github.com/owner/name", "branches": ["main"], "replicas": 1}

# The longer path comes before the shorter one that would match it.
OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "search", "GET", "/v1/search",
        "Search the fleet; stream results if the client accepts application/x-ndjson or text/event-stream.",
        parameters=SearchParams, response=v1.SearchResponse, events=v1.StreamEvent, parameters_example=_SEARCH,
    ),
    Operation(
        "search_by_body", "POST", "/v1/search", "Search the fleet, with the query in the body.",
        body=SearchParams, response=v1.SearchResponse, body_example=_SEARCH,
    ),
    Operation(
        "stream", "POST", "/v1/search/stream", "Search the fleet; stream results as nodes respond, one event per line.",
        body=SearchParams, events=v1.StreamEvent, body_example=_SEARCH,
    ),
    Operation(
        "file", "GET", "/v1/repositories/{name}/file", "Return a file as indexed.",
        parameters=FileParams, response=v1.FileResponse, errors=(304, 404), parameters_example={"path": "cmd/main.go"},
    ),
    Operation(
        "folder", "GET", "/v1/repositories/{name}/folder", "List a folder.",
        parameters=FolderParams, response=v1.FolderResponse, errors=(404,), parameters_example={"path": "cmd"},
    ),
    Operation(
        "pin", "POST", "/v1/repositories/{name}/pin", "Keep a repository in memory.",
        response=v1.CatalogEntry, needs_admin=True, errors=(404,),
    ),
    Operation(
        "unpin", "POST", "/v1/repositories/{name}/unpin", "Allow a repository to be evicted when memory is short.",
        response=v1.CatalogEntry, needs_admin=True, errors=(404,),
    ),
    Operation(
        "reindex", "POST", "/v1/repositories/{name}/reindex", "Reindex a repository even if it has no new commits.",
        response=v1.CatalogEntry, status=202, needs_admin=True, errors=(404,),
    ),
    Operation(
        "repositories", "GET", "/v1/repositories", "List repositories, their state and their holders.",
        parameters=RepositoriesParams, response=v1.RepositoriesResponse,
        parameters_example={"state": "ready", "limit": 100},
    ),
    Operation(
        "add", "POST", "/v1/repositories", "Add a repository to the catalog; nodes bid for it.",
        body=AddRepositoryRequest, response=v1.CatalogEntry, status=201, needs_admin=True, errors=(409,),
        body_example=_REPOSITORY,
    ),
    Operation(
        "repository", "GET", "/v1/repositories/{name}", "Return one repository, its state and its holders.",
        response=v1.RepositoryView, errors=(404,),
    ),
    Operation(
        "remove", "DELETE", "/v1/repositories/{name}", "Remove a repository from the catalog and from results at once.",
        status=204, needs_admin=True, errors=(404,),
    ),
    Operation("fleet", "GET", "/v1/fleet", "Return nodes, repositories, leases and auctions.", response=FleetStatus),
    Operation(
        "webhook", "POST", "/v1/webhook",
        "Accept a push event signed with the webhook secret, or an object with a url and the admin token.",
        response=v1.WebhookResponse, status=202, needs_admin=True,
    ),
    Operation("openapi", "GET", "/v1/openapi.json", "Return this OpenAPI document."),
)  # fmt: skip
