"""Opens the ownership store that a URL names. There is no default and no fallback: an unknown scheme is an error."""

from collections.abc import Callable, Coroutine
from difflib import get_close_matches
from typing import Any

from argosy.base.backends.redis.url import SCHEMES as REDIS_SCHEMES
from argosy.base.clock import Clock, Random
from argosy.base.errors import Invalid
from argosy.base.extras import load_module
from argosy.ownership.backends.memory import MemoryOwnershipStore
from argosy.ownership.model import Space
from argosy.ownership.ports import OwnershipStore

# Backends are imported on use, because each needs an extra that may not be installed.
_REDIS = ("redis", "argosy.ownership.backends.redis", "RedisStore")
_ETCD = ("etcd", "argosy.ownership.backends.etcd", "EtcdStore")
_BACKENDS = {
    **dict.fromkeys(REDIS_SCHEMES, _REDIS),
    "etcd": _ETCD,
    "etcds": _ETCD,
}
SCHEMES = ("memory", *_BACKENDS)


async def open_ownership_store(
    url: str,
    space: Space,
    *,
    clock: Clock,
    random: Random,
    grace_s: float,
    namespace: str = "argosy",
) -> OwnershipStore:
    """Opens the store for one space.

    `memory://` returns a new store, which the caller shares with the other nodes of the process. It ends with them, so
    it cannot lose a lease and needs no grace period.
    """
    scheme, separator, _ = url.partition("://")
    if scheme == "memory" and separator:
        return MemoryOwnershipStore(space, clock=clock, random=random)
    if scheme not in _BACKENDS or not separator:
        raise Invalid(_unknown_scheme(scheme))
    extra, module, store = _BACKENDS[scheme]
    open_store = _load_opener(extra, module, store)
    return await open_store(url, space, clock=clock, random=random, grace_s=grace_s, namespace=namespace)


def _load_opener(extra: str, module: str, store: str) -> Callable[..., Coroutine[Any, Any, OwnershipStore]]:
    backend = load_module(module, extra=extra, purpose=f"the {extra} backend")
    opener: Callable[..., Coroutine[Any, Any, OwnershipStore]] = getattr(backend, store).open
    return opener


def _unknown_scheme(scheme: str) -> str:
    known = ", ".join(f"{name}://" for name in SCHEMES)
    close = get_close_matches(scheme, SCHEMES, n=1)
    hint = f"did you mean {close[0]}://? " if close else ""
    return f"unknown ownership store scheme {scheme[:20]!r}: {hint}supported: {known}"
