"""Errors as they go over gRPC: a code, a text, and metadata that tells where to go on.

The calls of the services are pure and raise; what no error by remedy can say (that an id which is taken ALREADY_EXISTS)
they raise as a `CallError`. Clients match on some of the texts, which is why those are kept as they are.
"""

from enum import StrEnum

from argosy.base.errors import (
    ArgosyError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    NotOwner,
    Throttled,
    Unauthorized,
    Unavailable,
)
from argosy.base.redact import redact

OWNER_ADDRESS = "x-silo-shard-owner-addr"
OWNER_NODE = "x-silo-shard-owner-node"
SHARD_NOT_FOUND = "shard not found"
MESSAGE_BYTES_MAX = 128 << 20  # of one gRPC message, either way
DETAILS_CHARS_MAX = 2_000  # a text travels in a header, and headers are short


class Code(StrEnum):
    """The names of gRPC's own codes, as far as we say them."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    NOT_FOUND = "NOT_FOUND"
    ALREADY_EXISTS = "ALREADY_EXISTS"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    UNIMPLEMENTED = "UNIMPLEMENTED"
    INTERNAL = "INTERNAL"
    UNAVAILABLE = "UNAVAILABLE"
    UNAUTHENTICATED = "UNAUTHENTICATED"


class CallError(Exception):
    """What a call is answered with if not with its response."""

    def __init__(self, code: Code, details: str, trailing: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(details)
        self.code = code
        self.details = details
        self.trailing = trailing


_CODES: tuple[tuple[type[ArgosyError], Code], ...] = (
    (Invalid, Code.INVALID_ARGUMENT),
    (Unauthorized, Code.UNAUTHENTICATED),
    (Forbidden, Code.PERMISSION_DENIED),
    (NotFound, Code.NOT_FOUND),
    (Conflict, Code.FAILED_PRECONDITION),
    (Gone, Code.FAILED_PRECONDITION),
    (Throttled, Code.RESOURCE_EXHAUSTED),
    (Unavailable, Code.UNAVAILABLE),
)


def code_of(error: ArgosyError) -> Code:
    if isinstance(error, NotOwner):
        return Code.NOT_FOUND  # as clients of this wire expect it: they look for the owner then
    return next((code for kind, code in _CODES if isinstance(error, kind)), Code.INTERNAL)


def call_error(error: ArgosyError) -> CallError:
    if isinstance(error, NotOwner):
        hints = ((OWNER_ADDRESS, error.hint), (OWNER_NODE, error.node))
        return CallError(Code.NOT_FOUND, SHARD_NOT_FOUND, tuple((name, hint) for name, hint in hints if hint))
    return CallError(code_of(error), redact(str(error))[:DETAILS_CHARS_MAX])
