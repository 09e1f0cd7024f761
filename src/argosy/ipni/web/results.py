"""Find results as JSON documents and NDJSON lines, encoded and decoded.

A document is assembled from bytes: the part about a provider is the same for millions of multihashes and is encoded
once. Decoders drop records without a provider, which are useless.
"""

from binascii import b2a_base64
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

import msgspec

from argosy.base.errors import Invalid
from argosy.ipni.model import Peer, ProviderResult

CACHED_PEERS = 8192  # encoded providers; an indexer knows some thousands

Found = tuple[bytes, Sequence[ProviderResult]]  # a multihash, and who has it
FoundEncrypted = tuple[bytes, Sequence[bytes]]  # a second hash, and the encrypted value keys under it

_T = TypeVar("_T")


def encode_json(found: Iterable[Found]) -> bytes:
    """The document of a find; multihashes without results do not appear in it."""
    return b'{"MultihashResults":[' + b",".join([_one(*each) for each in found if each[1]]) + b"]}"


def encode_line(result: ProviderResult) -> bytes:
    """One line of a stream, with its newline."""
    return encode_result(result) + b"\n"


def encode_result(result: ProviderResult) -> bytes:
    # Joined from bytes: base64 needs no escaping, and the provider's part is cached.
    return b'{"ContextID":"%b","Metadata":"%b","Provider":%b}' % (
        b2a_base64(result.context, newline=False),
        b2a_base64(result.metadata, newline=False),
        _peer(result.provider.id, result.provider.addresses),
    )


def encode_encrypted_json(found: Iterable[FoundEncrypted]) -> bytes:
    """The document of a find by second hashes."""
    parts = [
        b'{"Multihash":"%b","EncryptedValueKeys":[%b]}'
        % (b2a_base64(multihash, newline=False), b",".join([b'"%b"' % b2a_base64(key, newline=False) for key in keys]))
        for multihash, keys in found
        if keys
    ]
    return b'{"EncryptedMultihashResults":[' + b",".join(parts) + b"]}"


def encode_encrypted_line(key: bytes) -> bytes:
    return b'{"EncryptedValueKey":"%b"}\n' % b2a_base64(key, newline=False)


def decode_json(data: bytes) -> list[Found]:
    """Decodes the answer of any indexer; raises Invalid if it is not such a document."""
    document = _decode(_document, data)
    # Go writes a nil list as null.
    return [(each.multihash, _usable(each.results or ())) for each in document.found or ()]


def decode_line(line: bytes) -> ProviderResult:
    """Decodes one line of a stream; the caller skips blank ones. Raises Invalid if it has no provider."""
    usable = _usable([_decode(_line, line)])
    if not usable:
        raise Invalid(f"a result without a provider is of no use: {line[:200]!r}")
    return usable[0]


def decode_encrypted_json(data: bytes) -> list[FoundEncrypted]:
    document = _decode(_encrypted_document, data)
    return [(each.multihash, tuple(each.keys or ())) for each in document.found or ()]


def decode_encrypted_line(line: bytes) -> bytes:
    return _decode(_encrypted_line, line).key


def decode_batch(data: bytes) -> list[bytes]:
    """The multihashes of a batch find."""
    return _decode(_batch, data).multihashes


def _one(multihash: bytes, results: Sequence[ProviderResult]) -> bytes:
    return b'{"Multihash":"%b","ProviderResults":[%b]}' % (
        b2a_base64(multihash, newline=False),
        b",".join([encode_result(result) for result in results]),
    )


@lru_cache(maxsize=CACHED_PEERS)
def _peer(id: str, addresses: tuple[str, ...]) -> bytes:
    """Cached by id and addresses: hashing and comparing a `Peer` costs more than the rest of a result."""
    return msgspec.json.encode({"ID": id, "Addrs": addresses})


class _Provider(msgspec.Struct):
    id: str = msgspec.field(name="ID", default="")
    addresses: list[str] | None = msgspec.field(name="Addrs", default=None)


class _ResultJson(msgspec.Struct):
    context: bytes | None = msgspec.field(name="ContextID", default=None)
    metadata: bytes | None = msgspec.field(name="Metadata", default=None)
    provider: _Provider | None = msgspec.field(name="Provider", default=None)


class _FoundJson(msgspec.Struct):
    multihash: bytes = msgspec.field(name="Multihash")
    results: list[_ResultJson] | None = msgspec.field(name="ProviderResults", default=None)


class _Document(msgspec.Struct):
    found: list[_FoundJson] | None = msgspec.field(name="MultihashResults", default=None)


class _FoundEncrypted(msgspec.Struct):
    multihash: bytes = msgspec.field(name="Multihash")
    keys: list[bytes] | None = msgspec.field(name="EncryptedValueKeys", default=None)


class _EncryptedDocument(msgspec.Struct):
    found: list[_FoundEncrypted] | None = msgspec.field(name="EncryptedMultihashResults", default=None)


class _EncryptedLine(msgspec.Struct):
    key: bytes = msgspec.field(name="EncryptedValueKey")


class _Batch(msgspec.Struct):
    multihashes: list[bytes] = msgspec.field(name="Multihashes")


_document = msgspec.json.Decoder(_Document)
_line = msgspec.json.Decoder(_ResultJson)
_encrypted_document = msgspec.json.Decoder(_EncryptedDocument)
_encrypted_line = msgspec.json.Decoder(_EncryptedLine)
_batch = msgspec.json.Decoder(_Batch)


def _decode(decoder: "msgspec.json.Decoder[_T]", data: bytes) -> _T:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as why:
        raise Invalid(f"this is not the JSON of a find: {why}") from None


def _usable(results: Iterable[_ResultJson]) -> tuple[ProviderResult, ...]:
    return tuple(
        [
            ProviderResult(each.context or b"", each.metadata or b"", Peer(peer.id, tuple(peer.addresses or ())))
            for each in results
            if (peer := each.provider) is not None and peer.id
        ]
    )
