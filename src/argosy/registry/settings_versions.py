"""The settings version of each index on each node, and the version that the whole fleet has agreed on.

Versions only grow, so a message that arrives late changes nothing. The fleet's own versions are rows of one reserved
index, one for each index that has any. That is also the list by which a removed node is deleted everywhere.
"""

from argosy.base.errors import Invalid
from argosy.registry.crud import BATCH_MAX, check_key, with_version
from argosy.registry.rows import NodeSettingsVersion
from argosy.registry.tables import NODE_SETTINGS_VERSION
from argosy.registry.transaction import (
    Delete,
    Get,
    Now,
    Put,
    TransactionBody,
    Write,
    commit,
    find,
    get,
    read_many,
    transaction,
)

FLEET = "*"  # the reserved index, whose nodes are indexes; no index may have this name


@transaction
def advance(index_uid: str, node_id: str, settings_version: int) -> TransactionBody[NodeSettingsVersion]:
    """Raises a node's version and returns the row as it now is; a lower one is ignored."""
    _check(index_uid, node_id)
    if settings_version < 0:
        raise Invalid(f"a settings version is at least 0, not {settings_version}")
    # The fleet's row is written with the first node's, because `delete_node` finds the indexes through it.
    clock, fleet = yield from read_many(Now(), _get(FLEET, index_uid))
    row = yield from get(NODE_SETTINGS_VERSION, index_uid, node_id)
    # Nothing is written, so messages that arrive late or twice cause no change events.
    if row is not None and settings_version <= row.settings_version:
        return row
    version = 0 if row is None else row.version
    raised = NodeSettingsVersion(index_uid, node_id, settings_version, clock, version)
    listed: list[Write] = []
    if fleet is None:
        listed = [Put(NODE_SETTINGS_VERSION, NodeSettingsVersion(FLEET, index_uid, 0, clock))]
    done = yield from commit(*listed, Put(NODE_SETTINGS_VERSION, raised))
    return with_version(raised, done.versions[-1])


@transaction
def bump(index_uid: str) -> TransactionBody[int]:
    """Increments the fleet's own version of an index, and returns it."""
    _check(index_uid)
    clock, row = yield from read_many(Now(), _get(FLEET, index_uid))
    agreed, version = (0, 0) if row is None else (row.settings_version, row.version)
    yield from commit(Put(NODE_SETTINGS_VERSION, NodeSettingsVersion(FLEET, index_uid, agreed + 1, clock, version)))
    return agreed + 1


@transaction
def current(index_uid: str) -> TransactionBody[int]:
    """The fleet's own version; 0 before the first `bump`."""
    _check(index_uid)
    row = yield from get(NODE_SETTINGS_VERSION, FLEET, index_uid)
    return 0 if row is None else row.settings_version


@transaction
def read(index_uid: str, node_id: str) -> TransactionBody[NodeSettingsVersion | None]:
    _check(index_uid, node_id)
    return (yield from get(NODE_SETTINGS_VERSION, index_uid, node_id))


@transaction
def nodes_of(index_uid: str) -> TransactionBody[dict[str, int]]:
    """The versions of all nodes that have one, in one read."""
    _check(index_uid)
    rows = yield from find(NODE_SETTINGS_VERSION, "family", index_uid)
    return {row.node_id: row.settings_version for row in rows}


@transaction
def indexes() -> TransactionBody[dict[str, int]]:
    """Every index that has settings versions, with the fleet's own."""
    rows = yield from find(NODE_SETTINGS_VERSION, "family", FLEET)
    return {row.node_id: row.settings_version for row in rows}


@transaction
def delete_index(index_uid: str) -> TransactionBody[int]:
    """Deletes a batch of the rows of an index that was dropped; call it until it returns 0."""
    _check(index_uid)
    rows = yield from find(NODE_SETTINGS_VERSION, "family", index_uid, limit=BATCH_MAX)
    fleet = yield from get(NODE_SETTINGS_VERSION, FLEET, index_uid)
    return (yield from _delete_rows([*rows, *([] if fleet is None else [fleet])]))


@transaction
def delete_node(node_id: str) -> TransactionBody[int]:
    """Deletes a batch of the rows of a node that was removed; call it until it returns 0."""
    _check(node_id)
    listed = yield from indexes()
    if not listed:
        return 0
    # By key in every listed index: rows are grouped by index, so those of one node cannot be listed.
    rows = yield from read_many(*(_get(index_uid, node_id) for index_uid in listed))
    return (yield from _delete_rows([row for row in rows if row is not None][:BATCH_MAX]))


def _delete_rows(rows: list[NodeSettingsVersion]) -> TransactionBody[int]:
    if rows:
        yield from commit(*(Delete(NODE_SETTINGS_VERSION, row) for row in rows))
    return len(rows)


def _get(index_uid: str, node_id: str) -> Get:
    return Get(NODE_SETTINGS_VERSION, (index_uid, node_id))


def _check(*names: str) -> None:
    check_key(NODE_SETTINGS_VERSION, names)
    if FLEET in names:
        raise Invalid(f"{FLEET!r} is reserved for the whole fleet; choose another name")
