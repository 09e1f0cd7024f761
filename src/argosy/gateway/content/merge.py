"""Merges the answers of many indexers without loss and without duplicates.

A record is known by multihash, provider and context. Where indexers disagree on its metadata or addresses, the first
of them in the operator's list is believed, whoever answered first, so that the same question has the same answer. One
indexer may tell several records under one key, which extended providers cause; those stay together.

A provider's whole entry comes from one indexer, the one that has read its newest advertisement: sets of extended
providers from different places in a chain must not be mixed.
"""

from collections.abc import Collection, Iterable, Sequence

from argosy.ipni.model import Provider, ProviderResult
from argosy.ipni.web.results import Found

_Key = tuple[str, bytes]


def usable(results: Iterable[ProviderResult]) -> list[ProviderResult]:
    """The results with a provider and addresses."""
    return [each for each in results if each.provider.id and each.provider.addresses]


def only(found: Iterable[Found], asked: Collection[bytes]) -> dict[bytes, list[ProviderResult]]:
    """Results by multihash, for the requested ones only."""
    kept: dict[bytes, list[ProviderResult]] = {}
    for multihash, results in found:
        if multihash in asked and (good := usable(results)):
            kept.setdefault(multihash, []).extend(good)
    return kept


def merged(parts: Sequence[Sequence[ProviderResult]]) -> list[ProviderResult]:
    """Merge the results for one multihash; `parts` are in the operator's order of indexers."""
    if len(parts) == 1:
        return list(dict.fromkeys(parts[0]))
    taken: set[_Key] = set()
    union: list[ProviderResult] = []
    for part in parts:
        fresh = [each for each in dict.fromkeys(part) if (each.provider.id, each.context) not in taken]
        union += fresh
        taken.update((each.provider.id, each.context) for each in fresh)
    return union


def merged_keys(parts: Iterable[Iterable[bytes]]) -> list[bytes]:
    """Encrypted value keys without duplicates."""
    return list(dict.fromkeys(key for part in parts for key in part))


def newest(known: Iterable[Provider]) -> Provider | None:
    """The newest entry for a provider; among equally new ones prefer one that is not frozen, then the first."""
    return max(known, key=lambda each: (each.last_ad_at, each.frozen_at is None, not each.is_inactive), default=None)


def merged_providers(parts: Iterable[Iterable[Provider]]) -> list[Provider]:
    """Every provider once, in order of first appearance."""
    by_id: dict[str, list[Provider]] = {}
    for provider in (each for part in parts for each in part):
        by_id.setdefault(provider.id, []).append(provider)
    return [found for known in by_id.values() if (found := newest(known)) is not None]
