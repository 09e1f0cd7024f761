"""Errors on the wire: a gRPC code, a text, and trailing metadata with the owner of a shard.

The calls of the services raise Argosy's errors, or a `CallError` where a code has no error of its own (ALREADY_EXISTS
for an id that is taken). Existing clients of silo.v1 match on some of the texts: those never change.
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
DETAILS_CHARS_MAX = 2_000  # a text is sent in an HTTP/2 header; gRPC bounds all headers of a call to 8 KiB by default


class Code(StrEnum):
    """The names of the gRPC codes that are used."""

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
    """The answer to a call that fails."""

    def __init__(self, code: Code, details: str, trailing: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(details)
        self.code = code
        self.details = details
        self.trailing = trailing


# In order: the first kind that matches decides.
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
        return Code.NOT_FOUND  # with "shard not found", at which silo's clients read the metadata for the owner
    return next((code for kind, code in _CODES if isinstance(error, kind)), Code.INTERNAL)


def call_error(error: ArgosyError) -> CallError:
    if isinstance(error, NotOwner):
        hints = ((OWNER_ADDRESS, error.hint), (OWNER_NODE, error.node))
        return CallError(Code.NOT_FOUND, SHARD_NOT_FOUND, tuple((name, hint) for name, hint in hints if hint))
    return CallError(code_of(error), redact(str(error))[:DETAILS_CHARS_MAX])
