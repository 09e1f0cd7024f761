"""State of a query node: the slots that it has in full, the layouts that it may follow, and its rows in the store.

KEY-1: a node serves a slot only if it has every live entry of it. So it follows a layout only if it has every slot that
the layout presumes, and only the next version: a node that missed a version may have missed removals.
"""

from dataclasses import dataclass, field, replace

import msgspec

from argosy.base.errors import Invalid
from argosy.base.key_docs import KeyDoc
from argosy.ipni.formats import varint
from argosy.ipni.keyspace.layout import FOUNDING, KeyspaceLayout, from_bitmap, orphans, to_bitmap

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
        "removed while slots move; entries of it that arrive later from another node are not stored",
    ),
)

STATE = b"keyspace/state"
REMOVED = b"keyspace/removed/"


def removal_prefix(version: int) -> bytes:
    return REMOVED + version.to_bytes(8, "big")


def removal_key(version: int, provider: str, context: bytes | None) -> bytes:
    """The key that records a removal; without a context, of all the provider's contexts."""
    # 65 characters stand for all contexts, because a context has at most 64.
    return (
        removal_prefix(version) + varint.encode_bytes(provider.encode()) + (b"*" * 65 if context is None else context)
    )


@dataclass(frozen=True)
class NodeState:
    """A node at a version. `is_cleared` means that its store has no entries of slots that it does not own; `mark` is
    that of the layout, 0 if unknown."""

    version: int
    held: frozenset[int]
    is_cleared: bool = True
    mark: int = field(default=0, compare=False)


def adopt(state: NodeState | None, layout: KeyspaceLayout, name: str) -> NodeState:
    """The state of the node in this layout, from its present state or, with None, an empty store. Raises Invalid if it
    must not follow the layout."""
    if state is not None and state.version == layout.version:
        if state.mark not in (0, layout.mark):
            raise Invalid(f"it follows another layout of version {layout.version}: a change needs a new version")
        return state
    return replace(_follow(state, layout, name), mark=layout.mark)


def _follow(state: NodeState | None, layout: KeyspaceLayout, name: str) -> NodeState:
    granted = _required_slots(layout, name)
    if state is None:
        return _first(layout, name, granted)
    if layout.version != state.version + 1:
        raise Invalid(
            f"it is at version {state.version}: give it version {state.version + 1} first, or list it as lost, empty "
            "its directory and add it again"
        )
    # It was no member of the side that has the data, so what is on its disk is from an earlier membership.
    if granted is None:
        if name in layout.now.nodes:
            raise Invalid("it joins with old data; empty its directory first")
        return NodeState(layout.version, frozenset(), is_cleared=False)
    if missing := granted - state.held:
        raise Invalid(f"{len(missing)} of its slots, such as {min(missing)}, have not been fetched yet; finalize later")
    if layout.previous is None:
        return replace(state, version=layout.version, is_cleared=False)
    return NodeState(layout.version, granted | _orphan_slots(layout, name), is_cleared=True)


def _required_slots(layout: KeyspaceLayout, name: str) -> frozenset[int] | None:
    """The slots that it must have already; None if it was not a member before."""
    side = layout.previous or layout.now
    if name in layout.lost:
        raise Invalid("it is listed as lost; empty its directory and add it again")
    return side.slots_of(name) if name in side.nodes else None


def _first(layout: KeyspaceLayout, name: str, granted: frozenset[int] | None) -> NodeState:
    if granted is not None:
        # Only at the founding version does an empty store mean that there is no data yet.
        if layout.version != FOUNDING:
            raise Invalid("its store is empty and should have slots already; list it as lost, and add it again")
        return NodeState(layout.version, granted)
    if name not in layout.now.nodes:
        raise Invalid(f"it is not a member; add it in a new version of the layout (nodes: {', '.join(layout.urls)})")
    return NodeState(layout.version, _orphan_slots(layout, name))


def _orphan_slots(layout: KeyspaceLayout, name: str) -> frozenset[int]:
    """The slots that start empty on this node, because no previous owner is left."""
    return orphans(layout) & layout.now.slots_of(name) if layout.lost else frozenset()


def missing_slots(state: NodeState, layout: KeyspaceLayout, name: str) -> frozenset[int]:
    """The slots that it owns and does not have yet."""
    return layout.now.slots_of(name) - state.held


def readable_slots(state: NodeState, layout: KeyspaceLayout, name: str) -> frozenset[int]:
    """The slots that it may serve. Of a slot that it no longer owns it misses the writes since then."""
    return state.held if layout.previous else state.held & layout.now.slots_of(name)


def pack(state: NodeState) -> bytes:
    return msgspec.msgpack.encode((state.version, to_bitmap(state.held), state.is_cleared, state.mark))


def unpack(data: bytes) -> NodeState:
    version, held, is_cleared, mark = msgspec.msgpack.decode(data, type=tuple[int, bytes, bool, int])
    return NodeState(version, from_bitmap(held), is_cleared, mark)
