"""Signed envelopes: a payload, its kind, and the key that signed both for one domain.

The domain is not in the envelope: the verifier states for which domain it must have been sealed.
"""

from dataclasses import dataclass

from argosy.base.errors import Invalid
from argosy.ipni.formats import protobuf, varint
from argosy.ipni.formats.keys import PrivateKey, PublicKey

ENVELOPE_BYTES_MAX = 1 << 20  # of the same size as the largest body that carries one

_KEY, _KIND, _PAYLOAD, _SIGNATURE = 1, 2, 3, 5


@dataclass(frozen=True)
class UnsealedEnvelope:
    """What was in an envelope, its signature checked."""

    payload: bytes
    signer: str


def seal(payload: bytes, *, kind: bytes, domain: str, key: PrivateKey) -> bytes:
    signature = key.sign(_signable(domain, kind, payload))
    public = key.public.to_protobuf()
    return protobuf.encode([(_KEY, public), (_KIND, kind), (_PAYLOAD, payload), (_SIGNATURE, signature)])


def unseal(envelope: bytes, *, kind: bytes, domain: str) -> UnsealedEnvelope:
    """Invalid if it is of another kind, or not signed by the key in it."""
    if len(envelope) > ENVELOPE_BYTES_MAX:
        raise Invalid(f"an envelope of {len(envelope)} bytes is longer than {ENVELOPE_BYTES_MAX}")
    found = protobuf.last_fields(envelope)
    public = PublicKey.from_protobuf(protobuf.content(found, _KEY, "the key of an envelope"))
    if (found_kind := protobuf.content(found, _KIND, "the kind of an envelope")) != kind:
        raise Invalid(f"the envelope is of kind {found_kind[:80]!r}, not {kind!r}")
    payload = protobuf.content(found, _PAYLOAD, "the payload of an envelope")
    signature = protobuf.content(found, _SIGNATURE, "the signature of an envelope")
    if not public.verify(_signable(domain, kind, payload), signature):
        raise Invalid(f"the signature of {public.peer_id} in the envelope is wrong")
    return UnsealedEnvelope(payload, public.peer_id)


def _signable(domain: str, kind: bytes, payload: bytes) -> bytes:
    return b"".join(varint.encode_bytes(part) for part in (domain.encode(), kind, payload))
