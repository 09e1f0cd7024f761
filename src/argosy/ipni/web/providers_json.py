"""JSON of providers, encoded and decoded: for `GET /providers`, and for handoffs.

IPNI names the context of extended providers by text, which loses a context that is not UTF-8; so there is a second
field, `ContextIDBytes` in base64, which takes precedence. Keys are written in their exact case and read in any.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from argosy.base.errors import Invalid
from argosy.ipni.formats import cid
from argosy.ipni.formats.cid import Cid
from argosy.ipni.model import ContextSet, ExtendedPeer, ExtendedProviders, Peer, Provider


def encode_provider(provider: Provider) -> bytes:
    return msgspec.json.encode(provider_json(provider))


def encode_providers(providers: Iterable[Provider]) -> bytes:
    return msgspec.json.encode([provider_json(provider) for provider in providers])


def decode_provider(data: bytes) -> Provider:
    """Decodes one provider's JSON, ours or storetheindex's."""
    return _read(_decode_json(data))


def decode_providers(data: bytes) -> list[Provider]:
    document = _decode_json(data)
    return [_read(each) for each in _list(document, "providers")]


def provider_json(provider: Provider) -> dict[str, object]:
    """Omits zero values, except for the two links, which are null."""
    document: dict[str, object] = {
        "AddrInfo": _peer(provider.id, provider.addresses),
        "LastAdvertisement": _link(provider.last_ad),
        "LastAdvertisementTime": _time(provider.last_ad_at),
        "Lag": provider.lag,
        # Also without an address: a successor finds the publisher's providers by this field.
        "Publisher": provider.publisher and _peer(provider.publisher.id, provider.publisher.addresses),
        "ExtendedProviders": _extended_json(provider.extended),
        "FrozenAt": _link(provider.frozen_at),
        "FrozenAtTime": _time(provider.frozen_at_time),
        "Inactive": provider.is_inactive,
        "LastError": provider.last_error,
        "LastErrorTime": _time(provider.last_error_at),
    }
    # storetheindex marks these fields as omitempty, all but the two links.
    return {key: value for key, value in document.items() if value or key in ("LastAdvertisement", "FrozenAt")}


def _peer(id: str, addresses: Sequence[str]) -> dict[str, object]:
    return {"ID": id, "Addrs": addresses}


def _link(link: Cid | None) -> dict[str, str] | None:
    return None if link is None else {"/": str(link)}


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z") if at else ""


def _extended_json(extended: ExtendedProviders) -> dict[str, object]:
    document: dict[str, object] = _set(extended.chain) if extended.chain else {}
    contexts = [
        {
            "Override": each.is_override,
            "ContextID": context.decode(errors="replace"),
            "ContextIDBytes": b64encode(context).decode(),
            **_set(each.peers),
        }
        for context, each in extended.contexts.items()
    ]
    return {**document, "Contextual": contexts} if contexts else document


def _set(peers: Sequence[ExtendedPeer]) -> dict[str, object]:
    """Providers and their metadata, in two lists of the same order."""
    return {
        "Providers": [_peer(each.id, each.addresses) for each in peers],
        "Metadatas": [b64encode(each.metadata).decode() for each in peers],
    }


def _decode_json(data: bytes) -> object:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as why:
        raise Invalid(f"this is not the JSON of providers: {why}") from None


def _read(document: object) -> Provider:
    document = _JsonObject(document, "provider")
    peer = _read_peer(document.get("addrinfo"))
    publisher = document.get("publisher")
    return Provider(
        id=peer.id,
        addresses=peer.addresses,
        publisher=None if publisher is None else _read_peer(publisher),
        last_ad=_read_link(document.get("lastadvertisement")),
        last_ad_at=_read_time(document.text("lastadvertisementtime")),
        lag=document.number("lag"),
        extended=_read_extended(document.get("extendedproviders")),
        frozen_at=_read_link(document.get("frozenat")),
        frozen_at_time=_read_time(document.text("frozenattime")),
        is_inactive=document.get("inactive") is True,
        last_error=document.text("lasterror"),
        last_error_at=_read_time(document.text("lasterrortime")),
    )


class _JsonObject:
    """A JSON object whose keys are matched in any case; what is null counts as left out."""

    def __init__(self, document: object, what: str) -> None:
        if not isinstance(document, Mapping):
            raise Invalid(f"the JSON of a {what} is an object, not {str(document)[:80]!r}")
        self._what = what
        self._values: dict[str, Any] = {str(key).lower(): value for key, value in document.items()}

    def get(self, key: str) -> Any:
        return self._values.get(key)

    def text(self, key: str) -> str:
        value = self.get(key)
        if value is None or isinstance(value, str):
            return value or ""
        raise Invalid(f"{key} of a {self._what} is a text, not {str(value)[:80]!r}")

    def number(self, key: str) -> int:
        value = self.get(key)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value or 0
        raise Invalid(f"{key} of a {self._what} is a whole number, not {str(value)[:80]!r}")


def _list(value: object, what: str) -> Sequence[Any]:
    if value is None or isinstance(value, list):
        return value or ()
    raise Invalid(f"{what} are a JSON list, not {str(value)[:80]!r}")


def _read_peer(document: object) -> Peer:
    document = _JsonObject(document, "peer")
    id = document.text("id")
    if not id:
        raise Invalid(f"a peer without an id cannot be used: {str(document)[:80]!r}")
    return Peer(id, tuple(str(address) for address in _list(document.get("addrs"), "addresses")))


def _read_link(document: object) -> Cid | None:
    if document is None:
        return None
    text = _JsonObject(document, "link").text("/")
    return cid.parse(text) if text else None


def _read_time(text: str) -> float:
    try:
        at = datetime.fromisoformat(text) if text else None
        # A time without a zone is read as UTC, not as local time of this machine.
        return 0.0 if at is None else (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise Invalid(f"{text[:80]!r} is not a time such as 2026-01-02T03:04:05Z") from None


def _read_extended(document: object) -> ExtendedProviders:
    if document is None:
        return ExtendedProviders()
    document = _JsonObject(document, "set of extended providers")
    contexts = {}
    for each in _list(document.get("contextual"), "contextual sets"):
        inner = _JsonObject(each, "contextual set")
        exact = inner.get("contextidbytes")  # absent in answers of storetheindex
        context = inner.text("contextid").encode() if exact is None else _read_bytes(exact)
        contexts[context] = ContextSet(_read_set(inner), inner.get("override") is True)
    return ExtendedProviders(_read_set(document), contexts)


def _read_set(document: _JsonObject) -> tuple[ExtendedPeer, ...]:
    peers = [_read_peer(each) for each in _list(document.get("providers"), "extended providers")]
    metadata = [_read_bytes(each) for each in _list(document.get("metadatas"), "their metadata")]
    # The two lists are separate on the wire, so the second may be shorter.
    metadata += [b""] * (len(peers) - len(metadata))
    return tuple(ExtendedPeer(peer.id, peer.addresses, own) for peer, own in zip(peers, metadata, strict=False))


def _read_bytes(text: object) -> bytes:
    if text is None:
        return b""
    try:
        return b64decode(str(text), validate=True)
    except ValueError:
        raise Invalid(f"{str(text)[:80]!r} is not base64 text") from None
