"""The rows that a query node keeps beside its multihashes."""

from argosy.base.key_docs import KeyDoc
from argosy.ipni.formats import varint

KEY_DOCS = (
    KeyDoc(
        "keyspace/state",
        "row",
        "msgpack: version, bitmap of slots, is_cleared, mark of the layout",
        "the layout a query node follows, and the slots it has in full",
    ),
    KeyDoc(
        "keyspace/removed/<version><provider><context>",
        "row",
        "empty",
        "removed while slots move: what arrives of it later from another node is not taken",
    ),
)

STATE = b"keyspace/state"
REMOVED = b"keyspace/removed/"


def removal_prefix(version: int) -> bytes:
    return REMOVED + version.to_bytes(8, "big")


def removal_key(version: int, provider: str, context: bytes | None) -> bytes:
    """With None, all of the provider's contexts: no context is as long as the text that stands for it."""
    return (
        removal_prefix(version) + varint.encode_bytes(provider.encode()) + (b"*" * 65 if context is None else context)
    )
