"""Double hashing: lookups in which the indexer does not learn the multihash.

A client sends the second hash of a multihash and receives value keys encrypted with the multihash; with a value key
it requests the metadata, encrypted with that key.

The formulas are those of dhstore, as all deployments use them. The written specification differs in two places: the
order of the nonce's input, and a salt in the hash of the value key.
"""

from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from argosy.base.errors import Invalid
from argosy.ipni.formats import multihash, varint
from argosy.ipni.formats.peer import peer_bytes, peer_of_bytes

_SALT_BYTES = 64
_HASH_SALT = b"CR_DOUBLEHASH".ljust(_SALT_BYTES, b"\0")
_KEY_SALT = b"CR_ENCRYPTIONKEY".ljust(_SALT_BYTES, b"\0")
_NONCE_SALT = b"CR_NONCE".ljust(_SALT_BYTES, b"\0")
_NONCE_BYTES = 12
_TAG_BYTES = 16


def second_hash(hashed: bytes) -> bytes:
    """The multihash to look up instead of this one."""
    return multihash.wrap(multihash.DBL_SHA2_256, second_digest(hashed))


def second_digest(hashed: bytes) -> bytes:
    return sha256(_HASH_SALT + hashed).digest()


def value_key(provider: str, context: bytes) -> bytes:
    return peer_bytes(provider) + context


def split_value_key(key: bytes) -> tuple[str, bytes]:
    """The provider and context of a value key."""
    _, at = varint.decode(key)
    _, end = varint.decode_bytes(key, at)
    return peer_of_bytes(key[:end]), key[end:]


def value_key_hash(key: bytes) -> bytes:
    """The key of a metadata lookup."""
    return sha256(key).digest()


def encrypt_value_key(key: bytes, hashed: bytes) -> bytes:
    """Encrypts for clients that know the multihash."""
    return _encrypt(key, hashed)


def decrypt_value_key(encrypted: bytes, hashed: bytes) -> bytes:
    return _decrypt(encrypted, hashed)


def encrypt_metadata(metadata: bytes, key: bytes) -> bytes:
    """Encrypts for clients that know the value key."""
    return _encrypt(metadata, key)


def decrypt_metadata(encrypted: bytes, key: bytes) -> bytes:
    return _decrypt(encrypted, key)


def _encrypt(payload: bytes, passphrase: bytes) -> bytes:
    """The nonce is derived from the input, so that every node produces the same bytes and duplicates can be merged."""
    nonce = sha256(_NONCE_SALT + len(payload).to_bytes(8, "little") + payload + passphrase).digest()[:_NONCE_BYTES]
    return nonce + AESGCM(_key(passphrase)).encrypt(nonce, payload, None)


def _decrypt(encrypted: bytes, passphrase: bytes) -> bytes:
    if len(encrypted) < _NONCE_BYTES + _TAG_BYTES:
        raise Invalid(f"{len(encrypted)} bytes are too few for an encrypted value")
    try:
        return AESGCM(_key(passphrase)).decrypt(encrypted[:_NONCE_BYTES], encrypted[_NONCE_BYTES:], None)
    except InvalidTag:
        raise Invalid("the value was encrypted with another key") from None


def _key(passphrase: bytes) -> bytes:
    return sha256(_KEY_SALT + passphrase).digest()
