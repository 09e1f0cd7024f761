"""Opens the registry that a URL names. There is no default and no second choice: a wrong URL is an error."""

from difflib import get_close_matches
from typing import Any

from argosy.base.backends.redis.url import SCHEMES as REDIS_SCHEMES
from argosy.base.clock import Clock, Random
from argosy.base.errors import Invalid
from argosy.base.extras import load_module
from argosy.registry.ports import RegistryStore

# Backends are imported when they are asked for, because one needs an extra that an installation may lack.
_SQLITE = ("sqlite", "argosy.registry.backends.sqlite", "SqliteStore")
_REDIS = ("redis", "argosy.registry.backends.redis", "RedisRegistry")
_BACKENDS = {
    "sqlite": _SQLITE,
    "memory": _SQLITE,
    **dict.fromkeys(REDIS_SCHEMES, _REDIS),
}
SCHEMES = tuple(_BACKENDS)


async def open_registry(url: str, *, clock: Clock, random: Random, namespace: str = "argosy") -> RegistryStore:
    """Opens or creates a registry. A file holds one, so `namespace` tells apart only those that share a server.

    `memory://` gives a registry of its own to the caller; it lives and dies with it.
    """
    scheme, separator, _ = url.partition("://")
    if scheme not in _BACKENDS or not separator:
        raise Invalid(_unknown(scheme))
    if url == "sqlite://":  # elsewhere that is a database in memory; who forgot the path would lose all
        raise Invalid("a SQLite registry needs a path: write sqlite:///relative.db, or memory:// to keep nothing")
    store = _store(*_BACKENDS[scheme])
    options = {"random": random, "namespace": namespace} if _BACKENDS[scheme] is _REDIS else {}
    opened: RegistryStore = await store.open(url, clock=clock, **options)
    return opened


def _store(extra: str, module: str, name: str) -> Any:
    return getattr(load_module(module, extra=extra, purpose=f"the {extra} backend"), name)


def _unknown(scheme: str) -> str:
    known = ", ".join(f"{name}://" for name in SCHEMES)
    close = get_close_matches(scheme, SCHEMES, n=1)
    hint = f"did you mean {close[0]}://? " if close else ""
    return f"there is no registry {scheme[:20]!r}: {hint}the URL begins with one of {known}"
