"""Delegated routing: results as the records that IPFS clients request, and their filters.

A record names a provider and its protocols and omits the context; records that become equal appear once. Filters
follow the IPIP-484 proposal: protocol names, `!name` for unwanted ones, `unknown` for none.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from argosy.base.errors import Invalid
from argosy.ipni.formats import metadata, multiaddr, varint
from argosy.ipni.model import ProviderResult

# indexstar's default. Kubo reads at most 1 MiB of such a document.
RECORDS_JSON_MAX = 100  # of a document; a stream may have more
# More than there are protocols; every name costs a comparison per address.
FILTER_NAMES_MAX = 64
_UNKNOWN = "unknown"
_CACHED = 8192  # addresses and metadata whose protocols are cached
_NUMBERS = {name: number for number, name in metadata.NAMES.items()}


@dataclass(frozen=True)
class RoutingRecord:
    """One provider of the content; `protocols` are names and, with each, its own part of the metadata."""

    id: str
    addresses: tuple[str, ...]
    protocols: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True)
class Filters:
    """What the caller can use; empty means everything."""

    addresses: frozenset[str] = frozenset()
    protocols: frozenset[str] = frozenset()

    @staticmethod
    def parse(addresses: str = "", protocols: str = "") -> "Filters":
        return Filters(_names(addresses), _names(protocols))

    def apply(self, record: RoutingRecord) -> RoutingRecord | None:
        """The record with the addresses that pass; None if nothing useful is left."""
        if self.protocols and not self._has_protocol(record):
            return None
        if not self.addresses:
            return record
        # IPIP-484: `unknown` keeps records without addresses.
        if not record.addresses:
            return record if _UNKNOWN in self.addresses else None
        passing = tuple(address for address in record.addresses if self._passes(address))
        return RoutingRecord(record.id, passing, record.protocols) if passing else None

    def _has_protocol(self, record: RoutingRecord) -> bool:
        if not record.protocols:
            return _UNKNOWN in self.protocols
        return any(name.lower() in self.protocols for name, _ in record.protocols)

    def _passes(self, address: str) -> bool:
        protocols = _address_protocols(address)
        unwanted = {name[1:] for name in self.addresses if name.startswith("!")}
        wanted = {name for name in self.addresses if not name.startswith("!")}
        return not protocols & unwanted and (not wanted or bool(protocols & wanted))


def records(results: Iterable[ProviderResult], filters: Filters | None = None) -> Iterator[RoutingRecord]:
    """One record for each provider and metadata, in the order of the results."""
    seen: set[tuple[str, bytes]] = set()
    for result in results:
        # The context is not part of a record, so a provider with several contexts would appear several times.
        key = (result.provider.id, result.metadata)
        if key in seen:
            continue
        seen.add(key)
        record: RoutingRecord | None = RoutingRecord(
            result.provider.id, result.provider.addresses, _protocols(result.metadata)
        )
        if filters is not None and record is not None:
            record = filters.apply(record)
        if record is not None:
            yield record


def encode_record(record: RoutingRecord) -> bytes:
    document: dict[str, object] = {"Schema": "peer", "ID": record.id, "Addrs": record.addresses}
    if record.protocols:
        document["Protocols"] = [name for name, _ in record.protocols]
    document |= {name: b64encode(part).decode() for name, part in record.protocols}
    return msgspec.json.encode(document)


def encode_records(document: Iterable[RoutingRecord]) -> bytes:
    """The document; without records an empty list, never null as in indexstar, which clients fail to read."""
    return b'{"Providers":[' + b",".join([encode_record(record) for record in document]) + b"]}"


def _names(text: str) -> frozenset[str]:
    names = [name for part in text.split(",") if (name := part.strip().lower())]
    if len(names) > FILTER_NAMES_MAX:
        raise Invalid(f"a filter has at most {FILTER_NAMES_MAX} names, not {len(names)}")
    return frozenset(names)


@lru_cache(maxsize=_CACHED)
def _address_protocols(address: str) -> frozenset[str]:
    try:
        return frozenset(multiaddr.protocols(address))
    except Invalid:
        return frozenset()  # an unreadable address matches no name, wanted or unwanted


@lru_cache(maxsize=_CACHED)
def _protocols(data: bytes) -> tuple[tuple[str, bytes], ...]:
    """The known protocols by name, each with its part of the metadata: its code and its payload."""
    try:
        found = metadata.protocols(data)
    except Invalid:
        return ()
    return tuple((name, varint.encode(_NUMBERS[name]) + payload) for name, payload in found if name in _NUMBERS)
