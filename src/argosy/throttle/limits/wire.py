"""Requests and responses as JSON, as Gubernator's gateway converts them to protobuf.

The reader is lenient: `unique_key` or `uniqueKey`, a 64-bit number as a number or a string, an enum by name or number,
null for a field that is not set; unknown fields are ignored. The writer has one form: the names of the protobuf file,
64-bit numbers as strings (JavaScript would round them), enums by name, and every field whether set or not.

Input that cannot be parsed is Invalid. So is an unknown behaviour: a limit with half of its flags would be another one.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum, IntFlag
from typing import Any

import msgspec

from argosy.base.errors import Invalid
from argosy.throttle.limits.model import (
    Algorithm,
    Behavior,
    RateLimitRequest,
    RateLimitResponse,
    Status,
)

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
# Bounded, because Python's `int` takes quadratic time on long texts.
_INTEGER = re.compile(r"-?[0-9]{1,20}")
_UPPER = re.compile("[A-Z]")


def read_requests(body: bytes) -> list[RateLimitRequest]:
    """The requests of `{"requests": […]}`; an empty body is an empty batch."""
    empty = {"name": "", "unique_key": ""}
    return [RateLimitRequest(**empty | _fields(each, _REQUEST)) for each in _list_of(body, "requests")]


def write_requests(requests: Sequence[RateLimitRequest]) -> bytes:
    """The body that a client sends."""
    return msgspec.json.encode({"requests": [_request_row(request) for request in requests]})


def read_responses(body: bytes) -> list[RateLimitResponse]:
    """The responses of `{"responses": […]}`, from us or from a Gubernator."""
    return [RateLimitResponse(**_fields(each, _RESPONSE)) for each in _list_of(body, "responses")]


def write_responses(responses: Sequence[RateLimitResponse]) -> bytes:
    """The body that a server returns."""
    return msgspec.json.encode({"responses": [_response_row(response) for response in responses]})


def write_health(*, status: str, message: str, peer_count: int, advertise_address: str) -> bytes:
    """The body of a health check."""
    row = {"status": status, "message": message, "peer_count": peer_count, "advertise_address": advertise_address}
    return msgspec.json.encode({**row, "local_peers": [], "region_peers": []})


def write_error(code: int, message: str) -> bytes:
    """The body of a failed call: gRPC's code, and a text."""
    return msgspec.json.encode({"code": code, "message": message, "details": []})


def read_error(body: bytes) -> str:
    """The text of a failed call; the beginning of the body if it has none."""
    try:
        error = msgspec.json.decode(body)
    except msgspec.DecodeError:
        error = None
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return str(error["message"])
    return body[:200].decode(errors="replace")


# -- writing ----------------------------------------------------------------------------------------------------------


def _request_row(request: RateLimitRequest) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": request.name,
        "unique_key": request.unique_key,
        "hits": str(request.hits),
        "limit": str(request.limit),
        "duration": str(request.duration),
        "algorithm": int(request.algorithm),
        "behavior": int(request.behavior),  # several flags together have no name
        "burst": str(request.burst),
        "metadata": dict(request.metadata),
    }
    return {**row, "created_at": str(request.created_at)} if request.created_at else row


def _response_row(response: RateLimitResponse) -> dict[str, Any]:
    return {
        "status": Status(response.status).name,
        "limit": str(response.limit),
        "remaining": str(response.remaining),
        "reset_time": str(response.reset_time),
        "error": response.error,
        "metadata": dict(response.metadata),
    }


# -- reading ----------------------------------------------------------------------------------------------------------


def _list_of(body: bytes, name: str) -> list[Any]:
    if not body.strip():
        return []
    try:
        whole = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise Invalid(f"request body is not valid JSON: {error}") from error
    # Raised by the decoder for a body of nested brackets, which is the caller's mistake and not a failure of the
    # server.
    except RecursionError as error:
        raise Invalid("request body is nested too deeply") from error
    if not isinstance(whole, dict):
        raise Invalid(f'invalid body, a {type(whole).__name__}: expected an object {{"{name}": […]}}')
    items = whole.get(name)
    if items is not None and not isinstance(items, list):
        raise Invalid(f"{name} must be a list")
    return items or []


def _fields(row: object, kinds: Mapping[str, Callable[[str, Any], Any]]) -> dict[str, Any]:
    """The known fields of one object; a field that is null or missing has its default."""
    if not isinstance(row, dict):
        raise Invalid(f"expected an object, not {str(row)[:50]!r}")
    values: dict[str, Any] = {}
    for spelled, value in row.items():
        # protobuf's JSON accepts both spellings of a field.
        name = _UPPER.sub(lambda letter: f"_{letter[0].lower()}", spelled)
        if name not in kinds or value is None:
            continue
        # Both spellings in one object: which one is meant cannot be known.
        if name in values:
            raise Invalid(f"{name} is given twice")
        values[name] = kinds[name](name, value)
    return values


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise Invalid(f"{name} must be a string")
    return value


def _integer(name: str, value: object) -> int:
    """A number, or a number as a string; 1e3 and 5.0 are whole numbers too."""
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not -_INT64_MAX - 1 <= value <= _INT64_MAX:
        raise Invalid(f"{name} must be a 64-bit whole number, not {str(value)[:50]!r}")
    return value


def _enum(kind: type[IntEnum] | type[IntFlag]) -> Callable[[str, Any], int]:
    def read(name: str, value: object) -> int:
        if isinstance(value, str) and value in kind.__members__:
            return int(kind[value])
        if isinstance(value, int) and not isinstance(value, bool) and -_INT32_MAX - 1 <= value <= _INT32_MAX:
            return value
        raise Invalid(f"invalid {name} {str(value)[:50]!r}; use a number or one of {', '.join(kind.__members__)}")

    return read


def _status(name: str, value: object) -> Status:
    number = _enum(Status)(name, value)
    if number not in tuple(Status):
        raise Invalid(f"unknown {name} {number}")
    return Status(number)


def _metadata(name: str, value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise Invalid(f"{name} must be an object of strings")
    return value


_REQUEST: Mapping[str, Callable[[str, Any], Any]] = {
    "name": _text,
    "unique_key": _text,
    "hits": _integer,
    "limit": _integer,
    "duration": _integer,
    "algorithm": _enum(Algorithm),
    "behavior": _enum(Behavior),
    "burst": _integer,
    "metadata": _metadata,
    "created_at": _integer,
}
_RESPONSE: Mapping[str, Callable[[str, Any], Any]] = {
    "status": _status,
    "limit": _integer,
    "remaining": _integer,
    "reset_time": _integer,
    "error": _text,
    "metadata": _metadata,
}
