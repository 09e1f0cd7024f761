"""Resolves a stored value to the results of a find: its provider, then other providers of the same content.

First comes the provider itself, then the extended providers of the context, then those of the whole chain unless the
context hides them. An extended provider without metadata has that of the value.
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256

from argosy.base.errors import Invalid
from argosy.ipni.formats import multihash, privacy
from argosy.ipni.indexer.ingest_state import ProviderTable
from argosy.ipni.indexer.policy import PeerPolicy
from argosy.ipni.model import ExtendedPeer, IndexValue, Peer, Provider, ProviderResult
from argosy.ipni.ports import IndexStore

ORPHANS_MAX = 1000  # remembered between two rounds of maintenance


def results(value: IndexValue, provider: Provider, is_visible: Callable[[str], bool]) -> Iterator[ProviderResult]:
    """Skips peers that are not visible: blocked, or without contact for a long time."""
    if not is_visible(provider.id):
        return
    yield ProviderResult(value.context, value.metadata, Peer(provider.id, provider.addresses))
    for peer in _extended_peers(value, provider):
        metadata = peer.metadata or value.metadata
        # The set usually contains the provider itself; the reference lists it twice only if the metadata differ.
        is_same = peer.id == provider.id and metadata == value.metadata
        if not is_same and is_visible(peer.id):
            yield ProviderResult(value.context, metadata, Peer(peer.id, peer.addresses))


def _extended_peers(value: IndexValue, provider: Provider) -> Iterator[ExtendedPeer]:
    within = provider.extended.contexts.get(value.context)
    if within is not None:
        yield from within.peers
    if within is None or not within.is_override:
        yield from provider.extended.chain


class Resolver:
    """Answers finds from the store with the current providers and policy."""

    def __init__(self, store: IndexStore, provider_table: ProviderTable, policy: PeerPolicy) -> None:
        self._store = store
        self._provider_table = provider_table
        self._policy = policy
        self.orphans: dict[tuple[str, bytes], None] = {}  # contexts of providers that are not known, to be removed

    async def find(self, multihashes: Sequence[bytes]) -> list[tuple[ProviderResult, ...]]:
        found = await self._store.find(multihashes)
        return [tuple(result for value in values for result in self._results(value)) for values in found]

    async def find_encrypted(self, second_hashes: Sequence[bytes]) -> list[tuple[bytes, ...]]:
        digests = [_second_digest(each) for each in second_hashes]
        firsts = await self._store.find_second(digests)
        # One call for all. Unknown second hashes are left out of it, so the results are matched up in order.
        found = iter(await self._store.find([each for each in firsts if each is not None]))
        return [() if each is None else tuple(self._encrypt_keys(each, next(found))) for each in firsts]

    async def encrypted_metadata(self, value_key_hash: bytes) -> bytes | None:
        value = await self._store.find_value(value_key_hash)
        if value is None or self._provider_of(value) is None:
            return None
        return privacy.encrypt_metadata(value.metadata, privacy.value_key(value.provider, value.context))

    def is_visible(self, peer: str) -> bool:
        known = self._provider_table.find(peer)
        return self._policy.is_allowed(peer) and not (known is not None and known.is_inactive)

    def _results(self, value: IndexValue) -> Iterator[ProviderResult]:
        provider = self._provider_of(value)
        if provider is not None:
            yield from results(value, provider, self.is_visible)

    def _encrypt_keys(self, multihash: bytes, values: Sequence[IndexValue]) -> Iterator[bytes]:
        for value in values:
            if self._provider_of(value) is not None and self.is_visible(value.provider):
                yield privacy.encrypt_value_key(privacy.value_key(value.provider, value.context), multihash)

    def _provider_of(self, value: IndexValue) -> Provider | None:
        """The value's provider; None if it is unknown, and then its context is remembered as an orphan."""
        provider = self._provider_table.find(value.provider)
        # Removed later and elsewhere: a find must not write. Beyond the bound they are met again by another find.
        if provider is None and len(self.orphans) < ORPHANS_MAX:
            self.orphans[value.provider, value.context] = None
        return provider


def _second_digest(second_hash: bytes) -> bytes:
    code, digest = multihash.split(second_hash)
    if code != multihash.DBL_SHA2_256:
        raise Invalid(f"a double-hashed lookup is by a multihash of code {multihash.DBL_SHA2_256:#x}, not {code:#x}")
    return digest


# Samples let others check that a provider really has what it advertises. The beacon selects them, so that the provider
# cannot prepare for the check.
SAMPLES_MAX = 10
BEACON_BYTES_MAX = 32


def sample_places(beacon: bytes, count: int) -> list[bytes]:
    if len(beacon) > BEACON_BYTES_MAX:
        raise Invalid(f"a beacon has at most {BEACON_BYTES_MAX} bytes, not {len(beacon)}")
    if not 1 <= count <= SAMPLES_MAX:
        raise Invalid(f"1 to {SAMPLES_MAX} multihashes can be sampled, not {count}")
    return [sha256(beacon + bytes((number,))).digest() for number in range(count)]


async def sample(store: IndexStore, provider: str, context: bytes, *, beacon: bytes, count: int) -> list[bytes]:
    """The first multihash at or after each place, continuing at the start after the end; fewer if the context is
    small."""
    selected: dict[bytes, None] = {}
    for place in sample_places(beacon, count):
        found = await store.multihashes(provider, context, start=place, limit=1)
        found = found or await store.multihashes(provider, context, start=b"", limit=1)
        selected.update(dict.fromkeys(found))
    return list(selected)
