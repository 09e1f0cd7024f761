"""Content, providers and results for tests."""

from argosy.ipni.formats import cid, metadata, multihash
from argosy.ipni.formats.peer import PrivateKey
from argosy.ipni.model import Peer, ProviderResult

KEYS = [PrivateKey.generate(random_bytes=bytes([number]) * 32) for number in (1, 2, 3)]
A, B, C = (key.peer_id for key in KEYS)
CONTENT = multihash.of(b"content-0")
AD = cid.of(b"an advertisement", cid.DAG_JSON)


def result(
    provider: str = A, context: bytes = b"ctx-1", data: bytes = metadata.bitswap(), *addresses: str
) -> ProviderResult:
    return ProviderResult(context, data, Peer(provider, addresses or ("/ip4/192.0.2.1/tcp/4001",)))
