"""Who the indexer is: a key from a file, or one that it made and keeps beside its index."""

from argosy.base.errors import Invalid
from argosy.ipni import keys
from argosy.ipni.formats.bases import from_base64
from argosy.ipni.formats.keys import PrivateKey
from argosy.ipni.ports import IndexStore


async def kept_key(store: IndexStore) -> PrivateKey:
    """The key in the store, made the first time it is asked for."""
    data = await store.read(keys.IDENTITY)
    if data is not None:
        return PrivateKey.from_protobuf(data)
    key = PrivateKey.generate()
    await store.write({keys.IDENTITY: key.to_protobuf()}, is_durable=True)
    return key


def key_of(text: str, place: str) -> PrivateKey:
    try:
        return PrivateKey.from_protobuf(from_base64(text.strip()))
    except Invalid as wrong:
        raise Invalid(f"{place} holds no private key in base64: {wrong}") from None
