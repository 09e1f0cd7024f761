"""Generates the OpenAPI document from the operations and their request and response structs."""

from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec

from argosy.gateway.v1.model import Failure
from argosy.gateway.v1.operations import EVENTS, NDJSON, OPERATIONS, Operation

VERSION = "3.1.0"
REFERENCE = "#/components/schemas/{name}"
ERRORS = (400, 429, 503)
STATUSES = {
    200: "as asked",
    201: "added",
    202: "will be done",
    204: "removed",
    304: "not changed since",
    400: "the request is wrong: mend it, do not retry",
    401: "say who you are",
    403: "not for you, or not open at all",
    404: "there is no such thing",
    409: "somebody else was first: look again",
    429: "too much at once: come back after retry-after",
    503: "nothing can be served just now: retry with back-off",
}


@cache
def document(version: str) -> dict[str, Any]:
    """The OpenAPI document of this release."""
    types = _types()
    schemas, components = msgspec.json.schema_components(types, ref_template=REFERENCE)
    by_type = dict(zip(map(_key, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation, by_type, components)
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
    unique = {_key(each): each for each in [*found, Failure] if each is not None}
    return list(unique.values())


def _key(wanted: Any) -> str:
    return repr(wanted)


def _described(operation: Operation, schemas: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
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
    name = schemas[_key(operation.parameters)]["$ref"].rsplit("/", 1)[1]
    struct = components[name]
    for field, schema in struct["properties"].items():
        parameter = {"name": field, "in": "query", "required": field in struct.get("required", ()), "schema": schema}
        if field in operation.parameters_example:
            parameter["example"] = operation.parameters_example[field]
        yield parameter


def _reply(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if operation.response is not None:
        content["application/json"] = {"schema": schemas[_key(operation.response)]}
    if operation.events is not None:
        content |= {each: {"schema": schemas[_key(operation.events)]} for each in (NDJSON, EVENTS)}
    if operation.id == "openapi":
        content["application/json"] = {"schema": {"type": "object"}}
    told = {"description": STATUSES[operation.status]}
    return {str(operation.status): {**told, "content": content} if content else told}


def _errors(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    statuses = {*ERRORS, *operation.errors, *((401, 403) if operation.needs_admin else ())}
    content = {"application/json": {"schema": schemas[_key(Failure)]}}
    return {
        str(status): {"description": STATUSES[status], **({"content": content} if status >= 400 else {})}
        for status in sorted(statuses)
    }
