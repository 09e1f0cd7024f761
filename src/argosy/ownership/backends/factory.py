"""Opens the ownership store that a URL names. There is no default and no second choice: a wrong URL is an error."""

from collections.abc import Callable, Coroutine
from difflib import get_close_matches
from typing import Any

from argosy.base.clock import Clock, Random
from argosy.base.errors import Invalid
from argosy.base.extras import load_module
from argosy.ownership.backends.memory import MemoryStore
from argosy.ownership.model import Space
from argosy.ownership.ports import OwnershipStore

# Backends are imported when they are asked for, because each needs an extra that an installation may lack.
_REDIS = ("redis", "argosy.ownership.backends.redis", "RedisStore")
_ETCD = ("etcd", "argosy.ownership.backends.etcd", "EtcdStore")
_BACKENDS = {
    "redis": _REDIS,
    "rediss": _REDIS,
    "valkey": _REDIS,
    "valkeys": _REDIS,
    "etcd": _ETCD,
    "etcds": _ETCD,
}
SCHEMES = ("memory", *_BACKENDS)


async def open_store(
    url: str,
    space: Space,
    *,
    clock: Clock,
    random: Random,
    grace_s: float,
    namespace: str = "argosy",
) -> OwnershipStore:
    """Opens the store for one space.

    `memory://` gives a store of its own to the caller, who shares it with the other nodes of the process; it lives and
    dies with them, so it never forgets a lease that still stands and needs no grace.
    """
    scheme, separator, _ = url.partition("://")
    if scheme == "memory" and separator:
        return MemoryStore(space, clock=clock, random=random)
    if scheme not in _BACKENDS or not separator:
        raise Invalid(_unknown(scheme))
    opening = _opener(*_BACKENDS[scheme])
    return await opening(url, space, clock=clock, random=random, grace_s=grace_s, namespace=namespace)


def _opener(extra: str, module: str, store: str) -> Callable[..., Coroutine[Any, Any, OwnershipStore]]:
    backend = load_module(module, extra=extra, purpose=f"the {extra} backend")
    opener: Callable[..., Coroutine[Any, Any, OwnershipStore]] = getattr(backend, store).open
    return opener


def _unknown(scheme: str) -> str:
    known = ", ".join(f"{name}://" for name in SCHEMES)
    close = get_close_matches(scheme, SCHEMES, n=1)
    hint = f"did you mean {close[0]}://? " if close else ""
    return f"there is no store {scheme[:20]!r}: {hint}the URL begins with one of {known}"
