"""The known providers: their addresses, publisher and extended providers.

The table does no I/O. `provider_after` computes what a provider becomes; the caller stores the row and then calls
`apply`, so memory is never ahead of the disk.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from argosy.base.errors import Conflict, Invalid, NotFound
from argosy.ipni import keys
from argosy.ipni.formats.advertisement import Advertisement, AdvertisementExtension
from argosy.ipni.formats.cid import Cid
from argosy.ipni.indexer.sync_state import pack
from argosy.ipni.model import ContextSet, ExtendedPeer, ExtendedProviders, Peer, Provider

ERROR_CHARS_MAX = 500


class NoAddress(Invalid):
    """A new provider without an address: its content could not be fetched."""


class UnknownWhileFrozen(Conflict):
    """A frozen indexer accepts no new providers."""


class ProviderTable:
    def __init__(self, providers: Iterable[Provider] = ()) -> None:
        self._by_id = {provider.id: provider for provider in providers}

    def __len__(self) -> int:
        return len(self._by_id)

    def all(self) -> Sequence[Provider]:
        return tuple(self._by_id.values())

    def find(self, id: str) -> Provider | None:
        return self._by_id.get(id)

    def get(self, id: str) -> Provider:
        provider = self._by_id.get(id)
        if provider is None:
            raise NotFound(f"provider {id} not found")
        return provider

    def of_publisher(self, publisher: str) -> list[Provider]:
        return [each for each in self._by_id.values() if each.publisher is not None and each.publisher.id == publisher]

    def apply(self, provider: Provider) -> None:
        self._by_id[provider.id] = provider

    def remove(self, id: str) -> None:
        self._by_id.pop(id, None)

    def provider_after(
        self,
        ad: Advertisement,
        publisher: Peer,
        *,
        addresses: Sequence[str] = (),
        lag: int = 0,
        is_frozen: bool = False,
    ) -> Provider:
        """The provider after this advertisement; `addresses` are newer ones, if known.

        `last_ad` does not change: it moves only when the whole advertisement is stored.
        """
        known = self._by_id.get(ad.provider)
        if known is None and is_frozen:
            raise UnknownWhileFrozen(f"provider {ad.provider} is new, and this indexer is frozen")
        told = tuple(addresses) or ad.addresses
        if known is None and not told:
            raise NoAddress(f"provider {ad.provider} is new and has no address; advertise one")
        was = known or Provider(ad.provider)
        return replace(
            was,
            addresses=told or was.addresses,
            publisher=publisher if publisher.addresses or was.publisher is None else Peer(publisher.id, _places(was)),
            extended=extend(ad, was.extended),
            lag=lag,
            is_inactive=False,
        )


def _places(provider: Provider) -> tuple[str, ...]:
    return () if provider.publisher is None else provider.publisher.addresses


def with_applied(provider: Provider, ad: Cid, at: float, *, error: str = "") -> Provider:
    """The provider after the advertisement was applied in full, or skipped permanently with an error."""
    moved = replace(provider, last_ad=ad, last_ad_at=at)
    return with_error(moved, error, at) if error else replace(moved, last_error="", last_error_at=0.0)


def with_error(provider: Provider, error: str, at: float) -> Provider:
    return replace(provider, last_error=error[:ERROR_CHARS_MAX], last_error_at=at)


def provider_row(provider: Provider) -> Mapping[bytes, bytes | None]:
    return {keys.provider(provider.id): pack(provider)}


def extend(ad: Advertisement, was: ExtendedProviders) -> ExtendedProviders:
    """Every set replaces the previous one, for the chain and all contexts; an empty one clears it.

    What the protocol forbids is ignored, so that it does not block the chain: a set on a removal, an override without a
    context.
    """
    if ad.extension is None or ad.is_removal:
        return was
    if ad.extension.is_override and not ad.context:
        return was
    peers = _peers(ad, ad.extension)
    if not peers:
        return ExtendedProviders()
    if ad.context:
        return ExtendedProviders(contexts={ad.context: ContextSet(peers, ad.extension.is_override)})
    return ExtendedProviders(chain=peers)


def _peers(ad: Advertisement, extension: AdvertisementExtension) -> tuple[ExtendedPeer, ...]:
    """Peers with an address; the provider's own entry may omit addresses that equal the advertisement's."""
    reachable = []
    for peer in extension.peers:
        addresses = peer.addresses or (ad.addresses if peer.id == ad.provider else ())
        if addresses:
            reachable.append(ExtendedPeer(peer.id, addresses, peer.metadata))
    return tuple(reachable)
