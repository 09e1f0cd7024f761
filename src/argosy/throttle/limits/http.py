"""Gubernator's HTTP API over any limiter: the same paths, the same JSON, the same errors.

    POST /v1/GetRateLimits      a batch; the response to an invalid request has its `error` set
    GET  /v1/HealthCheck        "healthy", or "unhealthy" and why; always with status 200, as upstream
    GET  /v1/LiveCheck          liveness of the process

The error of a call is one object with gRPC's code and a text, which generated clients expect, and not an error of the
form of our other routes.
"""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from argosy.base.errors import ArgosyError, Invalid, Unavailable
from argosy.base.redact import redact
from argosy.throttle.limits import wire
from argosy.throttle.limits.model import BATCH_MAX, BATCH_TOO_LARGE
from argosy.throttle.limits.ports import RateLimiter

BODY_BYTES_MAX = 4 << 20  # a full batch of the longest keys takes 2.5 MB

# gRPC's codes, and the HTTP status that its gateway maps each to.
_INVALID_ARGUMENT = (3, 400)
_OUT_OF_RANGE = (11, 400)
_INTERNAL = (13, 500)
_UNAVAILABLE = (14, 503)
# The gateway would return 429, which means "slow down", but this body will never be accepted.
_TOO_LARGE = (8, 413)


def limit_routes(limiter: RateLimiter, *, advertise_address: str = "") -> list[Route]:
    """Routes to mount in any Starlette application; `advertise_address` is part of the health check's response."""

    async def get_rate_limits(request: Request) -> Response:
        body = await _body(request)
        if body is None:
            return _error(
                _TOO_LARGE, f"request body too large: the limit is {BODY_BYTES_MAX} bytes; send fewer requests at once"
            )
        try:
            requests = wire.read_requests(body)
            if len(requests) > BATCH_MAX:
                return _error(_OUT_OF_RANGE, BATCH_TOO_LARGE)
            return _json(wire.write_responses(await limiter.check(requests)))
        except ArgosyError as error:
            return _error(_kind(error), str(error))

    async def health_check(_: Request) -> Response:
        status, message = "healthy", ""
        try:
            await limiter.ping()
        except Unavailable as error:
            status, message = "unhealthy", redact(str(error))
        about = wire.write_health(status=status, message=message, peer_count=1, advertise_address=advertise_address)
        return _json(about)

    async def live_check(_: Request) -> Response:
        return _json(b"{}")

    return [
        Route("/v1/GetRateLimits", get_rate_limits, methods=["POST"]),
        Route("/v1/HealthCheck", health_check),
        Route("/v1/LiveCheck", live_check),
    ]


async def _body(request: Request) -> bytes | None:
    """The body, or None if it is too large; the rest is not read then."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > BODY_BYTES_MAX:
            return None
    return bytes(body)


def _kind(error: ArgosyError) -> tuple[int, int]:
    if isinstance(error, Invalid):
        return _INVALID_ARGUMENT
    return _UNAVAILABLE if isinstance(error, Unavailable) else _INTERNAL


def _error(kind: tuple[int, int], message: str) -> Response:
    code, status = kind
    return _json(wire.write_error(code, redact(message)), status)


def _json(body: bytes, status: int = 200) -> Response:
    return Response(body, status, media_type="application/json")
