"""Maps API keys to tenants and groups. The store holds only the hash of a key."""

import hashlib
import re

from argosy.base.errors import Invalid
from argosy.registry import crud
from argosy.registry.crud import check_version, put_row
from argosy.registry.rows import Tenant
from argosy.registry.tables import TENANT_MAP
from argosy.registry.transaction import Get, Now, TransactionBody, get, read_many, transaction

_HASH = re.compile("[0-9a-f]{64}")


def hash_of(api_key: str) -> str:
    """Hash of an API key, as used by writers and readers of the map."""
    return hashlib.sha256(api_key.encode()).hexdigest()


@transaction
def put(
    api_key_hash: str, tenant_id: str, group_id: int | None = None, *, expected_version: int | None = None
) -> TransactionBody[Tenant]:
    """Maps a key to a tenant and a group; without a group, the tenant's name selects it."""
    _check(api_key_hash)
    if not tenant_id or (group_id is not None and group_id < 0):
        raise Invalid(f"a tenant has a name and perhaps a group from 0, not {tenant_id!r} and {group_id}")
    clock, known = yield from read_many(Now(), Get(TENANT_MAP, (api_key_hash,)))
    if expected_version:
        check_version(TENANT_MAP, (api_key_hash,), known, expected_version)
    added_at, version = (clock, 0) if known is None else (known.added_at, known.version)
    return (yield from put_row(TENANT_MAP, Tenant(api_key_hash, tenant_id, group_id, added_at, version)))


@transaction
def read(api_key_hash: str) -> TransactionBody[Tenant | None]:
    _check(api_key_hash)
    return (yield from get(TENANT_MAP, api_key_hash))


@transaction
def remove(api_key_hash: str) -> TransactionBody[bool]:
    _check(api_key_hash)
    return (yield from crud.delete(TENANT_MAP, api_key_hash))


@transaction
def everything() -> TransactionBody[list[Tenant]]:
    """All keys, oldest first."""
    return (yield from crud.every(TENANT_MAP))


def _check(api_key_hash: str) -> None:
    if not isinstance(api_key_hash, str) or not _HASH.fullmatch(api_key_hash):
        raise Invalid("a key is known by its sha-256 in 64 hexadecimal digits; the key itself is not for the registry")
