"""Peers: their ids, and the keys that they sign with, in the protobuf form of libp2p.

A peer id is the hash of a public key, or the key itself where it is short. The normal form is base58 without a
multibase letter (`12D3KooW…`, `Qm…`); ids are compared as such texts.

Signatures: Ed25519 plain; RSA PKCS#1 v1.5, secp256k1 and ECDSA in DER, these three over SHA-256.
"""

from functools import cached_property, lru_cache
from typing import Literal, assert_never

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_der_public_key,
)

from argosy.base.errors import Invalid
from argosy.ipni.formats import cid, multihash
from argosy.ipni.formats.bases import base58, from_base58
from argosy.ipni.formats.varint import bytes_value, encode_message, int_value, last_fields

INLINE_BYTES_MAX = 42  # a key message up to this size is its own id: Ed25519 and secp256k1 keys
CACHED_IDS = 16384  # an indexer knows a few thousand peers


def id_of_key(message: bytes) -> str:
    """The peer id of a key in its protobuf form."""
    code = multihash.IDENTITY if len(message) <= INLINE_BYTES_MAX else multihash.SHA2_256
    return base58(multihash.of(message, code))


@lru_cache(CACHED_IDS)
def peer_bytes(id: str) -> bytes:
    """The multihash of the id."""
    data = from_base58(parse_peer(id))
    _check(data)
    return data


@lru_cache(CACHED_IDS)
def peer_of_bytes(data: bytes) -> str:
    _check(data)
    return base58(data)


@lru_cache(CACHED_IDS)
def parse_peer(text: str) -> str:
    """The id in its normal form; accepts the CID form (`bafz…`) too."""
    try:
        data = from_base58(text) if text.startswith(("Qm", "1")) else _multihash_of_cid(text)
        _check(data)
    except Invalid:
        raise Invalid(f"{text[:80]!r} is no peer id: one looks like 12D3KooW… or Qm…, or as a CID bafz…") from None
    return base58(data)


def _multihash_of_cid(text: str) -> bytes:
    key = cid.parse(text)
    if key.codec != cid.LIBP2P_KEY:
        raise Invalid(f"it is a CID of codec {key.codec:#x}")
    return key.multihash


def _check(data: bytes) -> None:
    code, digest = multihash.split(data)
    match code:
        case multihash.SHA2_256 if len(digest) == 32:
            return
        case multihash.IDENTITY if len(digest) <= INLINE_BYTES_MAX:
            return
    raise Invalid(f"{data.hex()[:80]} is not a peer id: it is a sha2-256, or a key of up to {INLINE_BYTES_MAX} bytes")


Kind = Literal["ed25519", "rsa", "secp256k1", "ecdsa"]
_KINDS: tuple[Kind, ...] = ("rsa", "ed25519", "secp256k1", "ecdsa")  # by number on the wire
# libp2p's own minimum.
RSA_BITS_MIN = 2048
RSA_BITS_MAX = 8192  # the time of a verification grows with the square
# An RSA private key of RSA_BITS_MAX bits takes about 5 KB.
KEY_BYTES_MAX = 8192
CACHED_KEYS = 1024  # all advertisements of a chain have the same key
_SECP256K1_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141

_Public = Ed25519PublicKey | rsa.RSAPublicKey | ec.EllipticCurvePublicKey
_Private = Ed25519PrivateKey | rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


class PublicKey:
    """Verifies signatures."""

    def __init__(self, key: _Public) -> None:
        self._key = key

    @staticmethod
    def from_protobuf(data: bytes) -> "PublicKey":
        return _public_key(data)

    @cached_property
    def kind(self) -> Kind:
        return _kind(self._key)

    def to_protobuf(self) -> bytes:
        return self._message

    @cached_property
    def _message(self) -> bytes:
        return _message(self.kind, self._raw())

    def _raw(self) -> bytes:
        match self._key:
            case Ed25519PublicKey():
                return self._key.public_bytes_raw()
            case ec.EllipticCurvePublicKey() if self.kind == "secp256k1":
                return self._key.public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
            case _:
                return self._key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    def verify(self, data: bytes, signature: bytes) -> bool:
        try:
            match self._key:
                case Ed25519PublicKey():
                    self._key.verify(signature, data)
                case rsa.RSAPublicKey():
                    self._key.verify(signature, data, padding.PKCS1v15(), SHA256())
                case ec.EllipticCurvePublicKey():
                    self._key.verify(signature, data, ec.ECDSA(SHA256()))
        except InvalidSignature:
            return False
        return True

    @cached_property
    def peer_id(self) -> str:
        return id_of_key(self._message)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicKey) and self._message == other._message

    def __hash__(self) -> int:
        return hash(self._message)


class PrivateKey:
    """Signs. Its repr shows the peer id only, so that a log line never contains the secret."""

    def __init__(self, key: _Private) -> None:
        self._key = key

    @staticmethod
    def generate(kind: Kind = "ed25519", random_bytes: bytes | None = None) -> "PrivateKey":
        """A new key from the system's randomness, or the one determined by 32 given bytes."""
        if random_bytes is not None:
            return _private_of(kind, random_bytes)
        match kind:
            case "ed25519":
                return PrivateKey(Ed25519PrivateKey.generate())
            case "rsa":
                return PrivateKey(rsa.generate_private_key(65537, RSA_BITS_MIN))
            case "secp256k1":
                return PrivateKey(ec.generate_private_key(ec.SECP256K1()))
            case "ecdsa":
                return PrivateKey(ec.generate_private_key(ec.SECP256R1()))
            case _:
                assert_never(kind)

    @staticmethod
    def from_protobuf(data: bytes) -> "PrivateKey":
        kind, raw = _split(data)
        try:
            if kind in ("rsa", "ecdsa"):
                return PrivateKey(_check_private(load_der_private_key(raw, None), kind))
            # An old form of Ed25519 keys repeats the public key at the end.
            return _private_of(kind, raw[:32] if kind == "ed25519" and len(raw) in (64, 96) else raw)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise Invalid(f"this is not a private key of kind {kind}") from None

    def to_protobuf(self) -> bytes:
        match self._key:
            case Ed25519PrivateKey():
                raw = self._key.private_bytes_raw() + self._key.public_key().public_bytes_raw()
            case ec.EllipticCurvePrivateKey() if self.public.kind == "secp256k1":
                raw = self._key.private_numbers().private_value.to_bytes(32, "big")
            case _:
                raw = self._key.private_bytes(Encoding.DER, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        return _message(self.public.kind, raw)

    @cached_property
    def public(self) -> PublicKey:
        return PublicKey(self._key.public_key())

    @property
    def peer_id(self) -> str:
        return self.public.peer_id

    def sign(self, data: bytes) -> bytes:
        match self._key:
            case Ed25519PrivateKey():
                return self._key.sign(data)
            case rsa.RSAPrivateKey():
                return self._key.sign(data, padding.PKCS1v15(), SHA256())
            case ec.EllipticCurvePrivateKey():
                signature = self._key.sign(data, ec.ECDSA(SHA256()))
                return _with_low_s(signature) if self.public.kind == "secp256k1" else signature

    def __repr__(self) -> str:
        return f"<private key of {self.peer_id}>"


def _with_low_s(signature: bytes) -> bytes:
    """Of the two valid signatures, the one with low s, which all verifiers accept: some reject the other as
    malleable."""
    r, s = decode_dss_signature(signature)
    return encode_dss_signature(r, min(s, _SECP256K1_ORDER - s))


def _kind(key: object) -> Kind:
    match key:
        case Ed25519PublicKey() | Ed25519PrivateKey():
            return "ed25519"
        case rsa.RSAPublicKey() | rsa.RSAPrivateKey() if RSA_BITS_MIN <= key.key_size <= RSA_BITS_MAX:
            return "rsa"
        case rsa.RSAPublicKey() | rsa.RSAPrivateKey():
            raise Invalid(f"an RSA key of {key.key_size} bits is refused: {RSA_BITS_MIN} to {RSA_BITS_MAX} are taken")
        case ec.EllipticCurvePublicKey() | ec.EllipticCurvePrivateKey():
            return "secp256k1" if isinstance(key.curve, ec.SECP256K1) else "ecdsa"
    raise Invalid(f"a key of kind {type(key).__name__} is not used here")


def _message(kind: Kind, raw: bytes) -> bytes:
    return encode_message([(1, _KINDS.index(kind)), (2, raw)])


def _split(data: bytes) -> tuple[Kind, bytes]:
    if len(data) > KEY_BYTES_MAX:
        raise Invalid(f"a key of {len(data)} bytes is longer than {KEY_BYTES_MAX}")
    found = last_fields(data)
    number = int_value(found, 1, "the kind of a key")
    if number >= len(_KINDS):
        raise Invalid(f"keys of kind {number} are not known: 0 to {len(_KINDS) - 1} are")
    return _KINDS[number], bytes_value(found, 2, "a key")


@lru_cache(CACHED_KEYS)
def _public_key(data: bytes) -> PublicKey:
    kind, raw = _split(data)
    key: object
    try:
        match kind:
            case "ed25519":
                key = Ed25519PublicKey.from_public_bytes(raw)
            case "secp256k1":
                key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256K1(), raw)
            case _:
                key = load_der_public_key(raw)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise Invalid(f"this is not a public key of kind {kind}") from None
    if _kind(key) != kind:
        raise Invalid(f"the key is not of kind {kind}, which it declares")
    assert isinstance(key, Ed25519PublicKey | rsa.RSAPublicKey | ec.EllipticCurvePublicKey)
    return PublicKey(key)


def _check_private(key: object, kind: Kind) -> _Private:
    if _kind(key) != kind:
        raise Invalid(f"the key is not of kind {kind}, which it declares")
    assert isinstance(key, Ed25519PrivateKey | rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey)
    return key


def _private_of(kind: Kind, secret: bytes) -> PrivateKey:
    if len(secret) != 32:
        raise Invalid(f"the secret of a key of kind {kind} has 32 bytes, not {len(secret)}")
    match kind:
        case "ed25519":
            return PrivateKey(Ed25519PrivateKey.from_private_bytes(secret))
        case "secp256k1":
            return PrivateKey(ec.derive_private_key(int.from_bytes(secret, "big"), ec.SECP256K1()))
        case "ecdsa":
            return PrivateKey(ec.derive_private_key(int.from_bytes(secret, "big"), ec.SECP256R1()))
        case "rsa":
            raise Invalid("an RSA key is not made from given bytes: leave them out")
        case _:
            assert_never(kind)
