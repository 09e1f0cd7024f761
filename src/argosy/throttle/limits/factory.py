"""Opens the limiter that a URL names. There is no default and no fallback: an invalid URL is an error."""

from datetime import UTC, tzinfo
from difflib import get_close_matches
from importlib import import_module
from zoneinfo import ZoneInfo

from argosy.base.backends.redis.url import SCHEMES as REDIS_SCHEMES
from argosy.base.backends.redis.url import SCHEMES_TEXT
from argosy.base.clock import Clock
from argosy.base.errors import Invalid
from argosy.base.extras import load_module
from argosy.base.metrics import Metrics
from argosy.throttle.limits.backends.http import HttpLimiter
from argosy.throttle.limits.backends.memory import MemoryLimiter
from argosy.throttle.limits.backends.sqlite import SqliteLimiter
from argosy.throttle.limits.ports import RateLimiter
from argosy.throttle.limits.settings import LimitSettings
from argosy.throttle.limits.table import KEYS_MAX

SCHEMES = ("memory", "sqlite", *REDIS_SCHEMES, "http", "https", "grpc", "grpcs")


async def open_limiter(
    url: str,
    *,
    clock: Clock,
    zone: tzinfo = UTC,
    keys_max: int = KEYS_MAX,
    namespace: str = "argosy",
    metrics: Metrics | None = None,
) -> RateLimiter:
    """`memory://`, `sqlite:///limits.db` (one process), `redis://host` (many), `http://host:1050` or `grpc://host:1051`.

    `redis+cluster://host,host` is a cluster. The last two are a Gubernator or another node of ours; `https` and `grpcs`
    encrypt. With Redis and Gubernator the server's clock decides when a bucket or a calendar day ends.
    """
    scheme, separator, rest = url.partition("://")
    if scheme not in SCHEMES or not separator:
        raise Invalid(_unknown(scheme))
    if scheme == "memory":
        return MemoryLimiter(clock=clock, zone=zone, keys_max=keys_max, metrics=metrics)
    if scheme == "sqlite":
        path = rest.removeprefix("/")
        if not path:
            raise Invalid("missing path in sqlite:///; use sqlite:///relative.db or sqlite:////absolute.db")
        return await SqliteLimiter.open(path, clock=clock, zone=zone, keys_max=keys_max, metrics=metrics)
    if scheme in REDIS_SCHEMES:
        redis = load_module("argosy.throttle.limits.backends.redis", extra="redis", purpose="this limiter")
        opened: RateLimiter = redis.RedisLimiter(url, clock=clock, namespace=namespace, zone=zone, metrics=metrics)
        return opened
    if scheme in ("http", "https"):
        return HttpLimiter(url)
    client = load_module("argosy.throttle.limits.gubernator.client", extra="gubernator", purpose="this limiter")
    credentials = import_module("grpc").ssl_channel_credentials() if scheme == "grpcs" else None
    remote: RateLimiter = client.GrpcLimiter(rest, credentials=credentials)
    return remote


async def open_limits(settings: LimitSettings, *, clock: Clock, metrics: Metrics | None = None) -> RateLimiter:
    """The limiter that the settings describe."""
    return await open_limiter(
        settings.store,
        clock=clock,
        zone=ZoneInfo(settings.zone),
        keys_max=settings.keys_max,
        namespace=settings.namespace,
        metrics=metrics,
    )


def _unknown(scheme: str) -> str:
    close = get_close_matches(scheme, SCHEMES, n=1)
    known = f"memory://, sqlite://, {SCHEMES_TEXT}, http[s]:// or grpc[s]://"
    hint = f"did you mean {close[0]}://?" if close else f"expected {known}"
    return f"unknown limiter {scheme[:20]!r}; {hint}"
