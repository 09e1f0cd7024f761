"""From gRPC's status codes to errors by remedy.

etcd speaks in a code and a text; where one code has several meanings the text decides, as in etcd's own clients.
Nothing here shows a request, because requests carry passwords.
"""

from enum import Enum, auto

import grpc  # type: ignore[import-untyped, unused-ignore]
from grpc import StatusCode

from argosy.base.errors import ArgosyError, Invalid, NotFound, Unavailable


class Remedy(Enum):
    """What the channel itself can do about a failed call, before it tells anybody."""

    LOG_IN = auto()  # the token is stale: get a new one, and repeat, for the call was refused unread
    SWITCH = auto()  # this endpoint is away or has no leader: let the next call go elsewhere
    NONE = auto()


_STALE_TOKEN = ("invalid auth token", "revision of auth store is old")
# A full database or a queue that is too long is the whole cluster's trouble: another endpoint would say the same.
_CLUSTER_WIDE = ("database space exceeded", "too many requests")
_AWAY = (
    StatusCode.UNAVAILABLE,
    StatusCode.DEADLINE_EXCEEDED,
    StatusCode.UNKNOWN,
    StatusCode.INTERNAL,
    StatusCode.CANCELLED,
    StatusCode.ABORTED,
    StatusCode.RESOURCE_EXHAUSTED,
)


def remedy(error: grpc.aio.AioRpcError) -> Remedy:
    text = _text(error)
    if any(sign in text for sign in _STALE_TOKEN):
        return Remedy.LOG_IN
    if error.code() in _AWAY and not any(sign in text for sign in _CLUSTER_WIDE):
        return Remedy.SWITCH
    return Remedy.NONE


def translate(error: grpc.aio.AioRpcError, what: str, where: str) -> ArgosyError:
    """The error to raise for a failed call `what` at the cluster `where`."""
    code, text = error.code(), _text(error)
    if "lease not found" in text:
        return NotFound(f"{what}: the lease has ended")
    if "database space exceeded" in text:
        return Unavailable(f"{what}: the database of {where} is full: compact and defragment it, then disarm its alarm")
    if code is StatusCode.DEADLINE_EXCEEDED:
        return Unavailable(f"{what}: {where} did not answer in time: is it overloaded, stopped or without a quorum?")
    if code in _AWAY:
        return Unavailable(f"{what}: {where} cannot be used: {text}: check that it runs and can be reached from here")
    if code is StatusCode.FAILED_PRECONDITION and "authentication is not enabled" in text:
        return Invalid(f"{what}: {where} has no authentication switched on: take user and password out of the URL")
    if "user name is empty" in text:
        return Invalid(f"{what}: {where} asks for a login: write etcd://user:password@… in the URL")
    if "authentication failed" in text:
        return Invalid(f"{what}: {where} refused user or password: check both")
    if code is StatusCode.PERMISSION_DENIED:
        return Invalid(f"{what}: {where} denies access: grant the user's role readwrite on our prefix")
    return Unavailable(f"{what}: {where} answered {code.name.lower()}: {text}")


def is_refusal(error: grpc.aio.AioRpcError) -> bool:
    """Whether no connection could be made because nothing listens there."""
    return error.code() is StatusCode.UNAVAILABLE and "connection refused" in _text(error).lower()


def _text(error: grpc.aio.AioRpcError) -> str:
    return str(error.details() or "no details")
