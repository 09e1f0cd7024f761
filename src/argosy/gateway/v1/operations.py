"""The operations of the API as data: its routes and its OpenAPI document are made from this and cannot disagree."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from argosy.gateway.model import FleetStatus
from argosy.gateway.v1 import model as v1
from argosy.gateway.v1.requests import FileWanted, FolderWanted, RepositoriesAsked, RepositoryWish, SearchAsked

NDJSON = "application/x-ndjson"
EVENTS = "text/event-stream"


@dataclass(frozen=True)
class Operation:
    """`errors` are the statuses besides 400, 429 and 503, which any operation may answer."""

    id: str
    method: str
    path: str
    summary: str
    parameters: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    reply: Any = None
    status: int = 200
    events: Any = None  # what it tells one by one, if that is what is accepted
    needs_admin: bool = False
    errors: tuple[int, ...] = ()
    parameters_example: Mapping[str, Any] = field(default_factory=dict)
    body_example: Mapping[str, Any] = field(default_factory=dict)

    @property
    def route(self) -> str:
        """The path as the router has it: names of repositories have slashes in them."""
        return self.path.replace("{name}", "{name:path}")


_SEARCH = {"q": "lang:go func main", "files": 10, "context": 2}
_WISH = {"url": "https://github.com/owner/name", "branches": ["main"], "replicas": 1}

# The longer path comes before the shorter one that would match it.
OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "search", "GET", "/v1/search",
        "Search the fleet; with accept: application/x-ndjson or text/event-stream results come as nodes answer.",
        parameters=SearchAsked, reply=v1.SearchReply, events=v1.StreamEvent, parameters_example=_SEARCH,
    ),
    Operation(
        "search_by_body", "POST", "/v1/search", "Search the fleet, the question in the body.",
        body=SearchAsked, reply=v1.SearchReply, body_example=_SEARCH,
    ),
    Operation(
        "stream", "POST", "/v1/search/stream", "Search the fleet; results come as nodes answer, one event per line.",
        body=SearchAsked, events=v1.StreamEvent, body_example=_SEARCH,
    ),
    Operation(
        "file", "GET", "/v1/repositories/{name}/file", "A file as it is indexed.",
        parameters=FileWanted, reply=v1.FileReply, errors=(304, 404), parameters_example={"path": "cmd/main.go"},
    ),
    Operation(
        "folder", "GET", "/v1/repositories/{name}/folder", "The names in a folder.",
        parameters=FolderWanted, reply=v1.FolderReply, errors=(404,), parameters_example={"path": "cmd"},
    ),
    Operation(
        "pin", "POST", "/v1/repositories/{name}/pin", "Keep a repository in memory.",
        reply=v1.CatalogEntry, needs_admin=True, errors=(404,),
    ),
    Operation(
        "unpin", "POST", "/v1/repositories/{name}/unpin", "Let a repository be evicted when memory is short.",
        reply=v1.CatalogEntry, needs_admin=True, errors=(404,),
    ),
    Operation(
        "reindex", "POST", "/v1/repositories/{name}/reindex", "Index a repository anew, new commits or not.",
        reply=v1.CatalogEntry, status=202, needs_admin=True, errors=(404,),
    ),
    Operation(
        "repositories", "GET", "/v1/repositories", "The repositories, their state, and who holds them.",
        parameters=RepositoriesAsked, reply=v1.RepositoriesReply, parameters_example={"state": "ready", "limit": 100},
    ),
    Operation(
        "add", "POST", "/v1/repositories", "Wish for a repository; a node will bid for it.",
        body=RepositoryWish, reply=v1.CatalogEntry, status=201, needs_admin=True, errors=(409,), body_example=_WISH,
    ),
    Operation(
        "repository", "GET", "/v1/repositories/{name}", "One repository, its state, and who holds it.",
        reply=v1.RepositoryView, errors=(404,),
    ),
    Operation(
        "remove", "DELETE", "/v1/repositories/{name}", "Take a repository out; it vanishes from answers at once.",
        status=204, needs_admin=True, errors=(404,),
    ),
    Operation("fleet", "GET", "/v1/fleet", "Nodes, repositories, leases and auctions.", reply=FleetStatus),
    Operation(
        "webhook", "POST", "/v1/webhook",
        "A code host's push event, signed with the webhook secret; or an object with a url, and the admin token.",
        reply=v1.WebhookReply, status=202, needs_admin=True,
    ),
    Operation("openapi", "GET", "/v1/openapi.json", "This description."),
)  # fmt: skip
