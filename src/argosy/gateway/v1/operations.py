"""The operations of the v1 API as data.

Routes and the OpenAPI document are both generated from this table, so they cannot differ.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec

from argosy.gateway.ports import FleetStatus
from argosy.gateway.v1 import model as v1
from argosy.gateway.v1.model import ErrorResponse
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
    is_search: bool = False  # subject to fair admission
    errors: tuple[int, ...] = ()
    parameters_example: Mapping[str, Any] = field(default_factory=dict)
    body_example: Mapping[str, Any] = field(default_factory=dict)

    @property
    def route(self) -> str:
        """The path in the router's syntax: repository names contain slashes."""
        return self.path.replace("{name}", "{name:path}")


_SEARCH = {"q": "lang:go func main", "files": 10, "context": 2}
_REPOSITORY = {"url": "https://github.com/owner/name", "branches": ["main"], "replicas": 1}

# The router takes the first route that matches, and {name:path} matches slashes: longer paths come first.
OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "search", "GET", "/v1/search",
        "Search the fleet; stream results if the client accepts application/x-ndjson or text/event-stream.",
        parameters=SearchParams, response=v1.SearchResponse, events=v1.StreamEvent,
        parameters_example=_SEARCH, is_search=True,
    ),
    Operation(
        "search_by_body", "POST", "/v1/search", "Search the fleet, with the query in the body.",
        body=SearchParams, response=v1.SearchResponse, body_example=_SEARCH, is_search=True,
    ),
    Operation(
        "stream", "POST", "/v1/search/stream", "Search the fleet; stream results as nodes respond, one event per line.",
        body=SearchParams, events=v1.StreamEvent, body_example=_SEARCH, is_search=True,
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


# -- the OpenAPI document ----------------------------------------------------------------------------------------------

VERSION = "3.1.0"
REFERENCE = "#/components/schemas/{name}"
ERRORS = (400, 429, 503)
STATUSES = {
    200: "success",
    201: "created",
    202: "accepted; processed in the background",
    204: "deleted",
    304: "not modified",
    400: "invalid request; correct it before retrying",
    401: "authentication required",
    403: "permission denied, or the operation is disabled",
    404: "not found",
    409: "conflict with the current state",
    429: "rate limited; retry after retry-after seconds",
    503: "temporarily unavailable; retry with backoff",
}


@cache
def document(version: str) -> dict[str, Any]:
    """The OpenAPI document of this release."""
    types = _types()
    schemas, components = msgspec.json.schema_components(types, ref_template=REFERENCE)
    # msgspec returns the schemas in the order of the types.
    by_type = dict(zip(map(_key, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _describe(operation, by_type, components)
    return {
        "openapi": VERSION,
        "info": {"title": "Argosy", "version": version, "description": "A self-hosted search fleet."},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"admin": {"type": "http", "scheme": "bearer"}},
        },
    }


def _types() -> list[Any]:
    found = [each for one in OPERATIONS for each in (one.parameters, one.body, one.response, one.events)]
    unique = {_key(each): each for each in [*found, ErrorResponse] if each is not None}
    return list(unique.values())


def _key(wanted: Any) -> str:
    return repr(wanted)


def _describe(operation: Operation, schemas: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    document: dict[str, Any] = {"operationId": operation.id, "summary": operation.summary}
    parameters = [*_path_parameters(operation), *_query_parameters(operation, schemas, components)]
    if parameters:
        document["parameters"] = parameters
    if operation.body is not None:
        content: dict[str, Any] = {"schema": schemas[_key(operation.body)]}
        if operation.body_example:
            content["example"] = dict(operation.body_example)
        document["requestBody"] = {"required": True, "content": {"application/json": content}}
    elif operation.id == "webhook":
        document["requestBody"] = {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}
    document["responses"] = {**_reply(operation, schemas), **_errors(operation, schemas)}
    if operation.needs_admin:
        document["security"] = [{"admin": []}]
    return document


def _path_parameters(operation: Operation) -> Iterable[dict[str, Any]]:
    if "{name}" in operation.path:
        schema = {"type": "string"}
        description = "the repository's name; its slashes need no escaping"
        yield {"name": "name", "in": "path", "required": True, "schema": schema, "description": description}


def _query_parameters(
    operation: Operation, schemas: dict[str, Any], components: dict[str, Any]
) -> Iterable[dict[str, Any]]:
    if operation.parameters is None:
        return
    struct = components[schemas[_key(operation.parameters)]["$ref"].rsplit("/", 1)[1]]
    for name, schema in struct["properties"].items():
        # OpenAPI has no struct for query parameters, so each field becomes one.
        parameter = {"name": name, "in": "query", "required": name in struct.get("required", ()), "schema": schema}
        if name in operation.parameters_example:
            parameter["example"] = operation.parameters_example[name]
        yield parameter


def _reply(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if operation.response is not None:
        content["application/json"] = {"schema": schemas[_key(operation.response)]}
    if operation.events is not None:
        content |= {each: {"schema": schemas[_key(operation.events)]} for each in (NDJSON, EVENTS)}
    if operation.id == "openapi":
        content["application/json"] = {"schema": {"type": "object"}}
    result = {"description": STATUSES[operation.status]}
    return {str(operation.status): {**result, "content": content} if content else result}


def _errors(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    statuses = {*ERRORS, *operation.errors, *((401, 403) if operation.needs_admin else ())}
    content = {"application/json": {"schema": schemas[_key(ErrorResponse)]}}
    return {
        str(status): {"description": STATUSES[status], **({"content": content} if status >= 400 else {})}
        for status in sorted(statuses)
    }
