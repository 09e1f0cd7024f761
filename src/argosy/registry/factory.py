"""Opens the registry that a URL names. There is no default and no fallback: an unknown scheme is an error."""

from difflib import get_close_matches
from typing import Any

from argosy.base.backends.redis.url import SCHEMES as REDIS_SCHEMES
from argosy.base.clock import Clock, Random
from argosy.base.errors import Invalid
from argosy.base.extras import load_module
from argosy.registry.ports import RegistryStore

# Backends are imported on use, because Redis needs an extra that may not be installed.
_SQLITE = ("sqlite", "argosy.registry.backends.sqlite", "SqliteStore")
_REDIS = ("redis", "argosy.registry.backends.redis", "RedisRegistry")
_BACKENDS = {
    "sqlite": _SQLITE,
    "memory": _SQLITE,
    **dict.fromkeys(REDIS_SCHEMES, _REDIS),
}
SCHEMES = tuple(_BACKENDS)


async def open_registry(url: str, *, clock: Clock, random: Random, namespace: str = "argosy") -> RegistryStore:
    """Opens or creates a registry. `namespace` separates registries on one Redis server; a SQLite file holds only one.

    `memory://` returns a new registry, which is lost when it is closed.
    """
    scheme, separator, _ = url.partition("://")
    if scheme not in _BACKENDS or not separator:
        raise Invalid(_unknown_scheme(scheme))
    if url == "sqlite://":  # SQLite would open a database in memory: a missing path would lose all data
        raise Invalid("a SQLite registry needs a path; write sqlite:///relative.db, or memory:// for one in memory")
    store = _load_store(*_BACKENDS[scheme])
    options = {"random": random, "namespace": namespace} if _BACKENDS[scheme] is _REDIS else {}
    registry: RegistryStore = await store.open(url, clock=clock, **options)
    return registry


def _load_store(extra: str, module: str, name: str) -> Any:
    return getattr(load_module(module, extra=extra, purpose=f"the {extra} backend"), name)


def _unknown_scheme(scheme: str) -> str:
    known = ", ".join(f"{name}://" for name in SCHEMES)
    close = get_close_matches(scheme, SCHEMES, n=1)
    hint = f"did you mean {close[0]}://? " if close else ""
    return f"unknown registry scheme {scheme[:20]!r}: {hint}supported: {known}"
