"""Merges the answers of many indexers without loss and without duplicates.

A record is identified by multihash, provider and context. Where indexers disagree on its metadata or addresses, the
first of them in the operator's list wins, not the first to respond, so that the same request has the same answer. One
indexer may return several records with one key, which extended providers cause; those stay together.

A provider's whole entry comes from one indexer, the one that has read its newest advertisement: sets of extended
providers from different positions in a chain must not be mixed.
"""

from collections.abc import Collection, Iterable, Sequence

from argosy.ipni.model import Provider, ProviderResult
from argosy.ipni.web.results import Found

_Key = tuple[str, bytes]


def usable_results(results: Iterable[ProviderResult]) -> list[ProviderResult]:
    """The results with a provider and addresses."""
    return [each for each in results if each.provider.id and each.provider.addresses]


def select_requested(found: Iterable[Found], requested: Collection[bytes]) -> dict[bytes, list[ProviderResult]]:
    """Results by multihash, for the requested ones only."""
    selected: dict[bytes, list[ProviderResult]] = {}
    for multihash, results in found:
        if multihash in requested and (good := usable_results(results)):
            selected.setdefault(multihash, []).extend(good)
    return selected


def merge_results(parts: Sequence[Sequence[ProviderResult]]) -> list[ProviderResult]:
    """Merge the results for one multihash; `parts` are in the operator's order of indexers."""
    if len(parts) == 1:
        return list(dict.fromkeys(parts[0]))
    seen: set[_Key] = set()
    union: list[ProviderResult] = []
    for part in parts:
        fresh = [each for each in dict.fromkeys(part) if (each.provider.id, each.context) not in seen]
        union += fresh
        seen.update((each.provider.id, each.context) for each in fresh)
    return union


def merge_keys(parts: Iterable[Iterable[bytes]]) -> list[bytes]:
    """Encrypted value keys without duplicates."""
    return list(dict.fromkeys(key for part in parts for key in part))


def newest(known: Iterable[Provider]) -> Provider | None:
    """The newest entry for a provider; among equally new ones prefer one that is not frozen, then the first."""
    return max(known, key=lambda each: (each.last_ad_at, each.frozen_at is None, not each.is_inactive), default=None)


def merge_providers(parts: Iterable[Iterable[Provider]]) -> list[Provider]:
    """Every provider once, in order of first appearance."""
    by_id: dict[str, list[Provider]] = {}
    for provider in (each for part in parts for each in part):
        by_id.setdefault(provider.id, []).append(provider)
    return [found for known in by_id.values() if (found := newest(known)) is not None]
