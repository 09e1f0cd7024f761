"""The cache of complete answers, and estimates of their memory."""

from collections.abc import Hashable, Sequence
from typing import Any, TypeAlias

from argosy.base.cache import Cache
from argosy.gateway.content.model import MergedAnswer
from argosy.ipni.model import Provider, ProviderResult

RECORD_BYTES = 600  # approximate overhead of the Python objects of a record
SET_BYTES = 300

# The caller decides which type of answer belongs to which type of key.
AnswerCache: TypeAlias = Cache[Hashable, MergedAnswer[Any]]


def store_answer(
    cache: AnswerCache, key: Hashable, answer: MergedAnswer[Any], *, size_bytes: int, ttl_s: float, now: float
) -> None:
    """Store a complete answer. An incomplete one is not cached, because the next one may be complete."""
    if not answer.missing and ttl_s > 0:
        cache.put(key, answer, size_bytes=size_bytes, expires_at=now + ttl_s)


def results_bytes(results: Sequence[ProviderResult]) -> int:
    """Approximate memory; an exact figure would cost more than it is worth."""
    texts = sum(len(each.context) + len(each.metadata) + sum(map(len, each.provider.addresses)) for each in results)
    return RECORD_BYTES * (1 + len(results)) + texts


def keys_bytes(keys: Sequence[bytes]) -> int:
    return RECORD_BYTES + sum(map(len, keys)) + 64 * len(keys)


def providers_bytes(providers: Sequence[Provider]) -> int:
    return RECORD_BYTES + sum(map(_provider_bytes, providers))


def _provider_bytes(provider: Provider) -> int:
    sets = [provider.extended.chain, *(each.peers for each in provider.extended.contexts.values())]
    extended = sum(SET_BYTES + sum(SET_BYTES + len(each.metadata) for each in peers) for peers in sets)
    return RECORD_BYTES + sum(map(len, provider.addresses)) + extended
