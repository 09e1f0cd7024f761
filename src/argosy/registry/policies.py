"""Operator settings: rollover policy, search UI configuration and TTL policy of an index, and the tenant of an API key.

Each is one row, written with compare-and-set: `expected_version` 0 requires that there is none, None accepts any.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from argosy.base.errors import Conflict, Invalid
from argosy.registry import crud
from argosy.registry.crud import check_key, check_version, put_row, require, with_version
from argosy.registry.rows import RolloverPolicy, SearchUiConfig, Tenant, TtlPolicy
from argosy.registry.table import R, Table
from argosy.registry.tables import ROLLOVER_POLICIES, SEARCH_UI_CONFIG, TENANT_MAP, TTL_POLICIES
from argosy.registry.transaction import Get, Now, TransactionBody, get, now, read_many, transaction

SWEEP_INTERVAL_S_MAX = 30 * 86_400
DELETES_MAX = 1_000_000  # documents of one sweep


@transaction
def put_rollover(policy: RolloverPolicy) -> TransactionBody[RolloverPolicy]:
    """Stores a policy that was read before, or a new one (version 0)."""
    if not (policy.write_alias and policy.read_alias and policy.pattern):
        raise Invalid(f"rollover policy {policy.name!r} needs a write alias, a read alias and a pattern")
    # The write alias names one index and the read alias several; one alias cannot be both kinds.
    if policy.write_alias == policy.read_alias:
        raise Invalid(f"rollover policy {policy.name!r} must write and read through different aliases")
    return (yield from crud.put(ROLLOVER_POLICIES, policy))


@transaction
def record_rollover(name: str, error: str | None = None) -> TransactionBody[RolloverPolicy]:
    """Records that a rollover ran, or its error; the policy itself is unchanged."""
    clock = yield from now()
    policy = yield from require(ROLLOVER_POLICIES, name)
    return (yield from put_row(ROLLOVER_POLICIES, replace(policy, last_action_at=clock, last_error=error)))


@transaction
def put_search_ui(
    index_uid: str, config: Mapping[str, Any], *, expected_version: int | None = None
) -> TransactionBody[SearchUiConfig]:
    clock, existing = yield from _read(SEARCH_UI_CONFIG, index_uid)
    return (yield from _put(SEARCH_UI_CONFIG, SearchUiConfig(index_uid, config, clock), existing, expected_version))


@transaction
def put_ttl(
    index_uid: str,
    *,
    sweep_interval_s: int,
    max_deletes_per_sweep: int,
    is_enabled: bool = True,
    expected_version: int | None = None,
) -> TransactionBody[TtlPolicy]:
    if not 1 <= sweep_interval_s <= SWEEP_INTERVAL_S_MAX:
        raise Invalid(f"sweeps are 1 to {SWEEP_INTERVAL_S_MAX} seconds apart, not {sweep_interval_s}")
    if not 1 <= max_deletes_per_sweep <= DELETES_MAX:
        raise Invalid(f"a sweep deletes 1 to {DELETES_MAX} documents, not {max_deletes_per_sweep}")
    clock, existing = yield from _read(TTL_POLICIES, index_uid)
    policy = TtlPolicy(index_uid, sweep_interval_s, max_deletes_per_sweep, is_enabled, clock)
    return (yield from _put(TTL_POLICIES, policy, existing, expected_version))


def _read(table: Table[R], index_uid: str) -> TransactionBody[tuple[int, R | None]]:
    check_key(table, (index_uid,))
    clock, row = yield from read_many(Now(), Get(table, (index_uid,)))
    return clock, row


def _put(table: Table[R], row: R, existing: R | None, expected_version: int | None) -> TransactionBody[R]:
    if expected_version == 0 and existing is not None:
        raise Conflict(f"{table.name} already has {crud.format_key(table.key_of(row))}")
    if expected_version:
        check_version(table, table.key_of(row), existing, expected_version)
    return (yield from put_row(table, row if existing is None else with_version(row, existing.version)))


# -- tenants ----------------------------------------------------------------------------------------------------------


_HASH = re.compile("[0-9a-f]{64}")


def hash_api_key(api_key: str) -> str:
    """Hash of an API key. The store has only hashes, so a copy of it contains no usable key."""
    return hashlib.sha256(api_key.encode()).hexdigest()


@transaction
def put_tenant(
    api_key_hash: str, tenant_id: str, group_id: int | None = None, *, expected_version: int | None = None
) -> TransactionBody[Tenant]:
    """Maps the hash of an API key to a tenant and a group; without a group, the tenant's name selects one."""
    _check_key_hash(api_key_hash)
    if not tenant_id or (group_id is not None and group_id < 0):
        raise Invalid(f"a tenant needs a name, and its group must be 0 or more, not {tenant_id!r} and {group_id}")
    clock, existing = yield from read_many(Now(), Get(TENANT_MAP, (api_key_hash,)))
    if expected_version:
        check_version(TENANT_MAP, (api_key_hash,), existing, expected_version)
    # A key that is mapped again keeps its place in the list, which is ordered by this time.
    added_at, version = (clock, 0) if existing is None else (existing.added_at, existing.version)
    return (yield from put_row(TENANT_MAP, Tenant(api_key_hash, tenant_id, group_id, added_at, version)))


@transaction
def read_tenant(api_key_hash: str) -> TransactionBody[Tenant | None]:
    _check_key_hash(api_key_hash)
    return (yield from get(TENANT_MAP, api_key_hash))


@transaction
def remove_tenant(api_key_hash: str) -> TransactionBody[bool]:
    _check_key_hash(api_key_hash)
    return (yield from crud.delete(TENANT_MAP, api_key_hash))


@transaction
def list_tenants() -> TransactionBody[list[Tenant]]:
    """All mapped keys, oldest first."""
    return (yield from crud.every(TENANT_MAP))


def _check_key_hash(api_key_hash: str) -> None:
    if not isinstance(api_key_hash, str) or not _HASH.fullmatch(api_key_hash):
        raise Invalid("an API key is stored as its sha-256 in 64 hexadecimal digits; never pass the key itself")
