"""State of a query node: the slots that it has in full, and the layouts that it may follow.

KEY-1: a node serves a slot only if it has every live entry of it. So it follows a layout only if it has every slot
that the layout presumes, and only the next version: a node that missed a change may have missed removals.
"""

from dataclasses import dataclass, field, replace

import msgspec

from argosy.base.errors import Invalid
from argosy.ipni.keyspace.layout import FOUNDING, KeyspaceLayout, orphans
from argosy.ipni.keyspace.slots import from_bitmap, to_bitmap


@dataclass(frozen=True)
class NodeState:
    """A node at a version; `is_cleared` once nothing is left in its store of what no longer belongs there. The mark is
    that of the layout, 0 if it is not known."""

    version: int
    held: frozenset[int]
    is_cleared: bool = True
    mark: int = field(default=0, compare=False)


def adopt(state: NodeState | None, layout: KeyspaceLayout, name: str) -> NodeState:
    """The state in this layout, of a node with this state or with an empty store; Invalid if it must not follow."""
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
            f"it is at version {state.version}: give it version {state.version + 1} first, or name it as lost, empty "
            "its folder and let it join anew"
        )
    if granted is None:
        if name in layout.now.nodes:
            raise Invalid("it joins with data of the past: empty its folder first")
        return NodeState(layout.version, frozenset(), is_cleared=False)
    if missing := granted - state.held:
        raise Invalid(f"{len(missing)} of its slots, such as {min(missing)}, are not moved yet: settle when they are")
    if layout.previous is None:
        return replace(state, version=layout.version, is_cleared=False)
    return NodeState(layout.version, granted | _orphan_slots(layout, name), is_cleared=True)


def _required_slots(layout: KeyspaceLayout, name: str) -> frozenset[int] | None:
    """What it must have already; None if it was no member before."""
    side = layout.previous or layout.now
    if name in layout.lost:
        raise Invalid("it is named as lost: empty its folder and let it join anew")
    return side.slots_of(name) if name in side.nodes else None


def _first(layout: KeyspaceLayout, name: str, granted: frozenset[int] | None) -> NodeState:
    if granted is not None:
        if layout.version != FOUNDING:
            raise Invalid("its store is empty, and should have slots already: name it as lost, and let it join anew")
        return NodeState(layout.version, granted)
    if name not in layout.now.nodes:
        raise Invalid(f"it is no member: name it in a new version of the layout (nodes: {', '.join(layout.urls)})")
    return NodeState(layout.version, _orphan_slots(layout, name))


def _orphan_slots(layout: KeyspaceLayout, name: str) -> frozenset[int]:
    """Nobody has them: they begin here, and empty."""
    return orphans(layout) & layout.now.slots_of(name) if layout.lost else frozenset()


def left(state: NodeState, layout: KeyspaceLayout, name: str) -> frozenset[int]:
    """The slots it owns and has not got yet."""
    return layout.now.slots_of(name) - state.held


def readable(state: NodeState, layout: KeyspaceLayout, name: str) -> frozenset[int]:
    """The slots it may answer for: what it held and owns no longer may be out of date."""
    return state.held if layout.previous else state.held & layout.now.slots_of(name)


def pack(state: NodeState) -> bytes:
    return msgspec.msgpack.encode((state.version, to_bitmap(state.held), state.is_cleared, state.mark))


def unpack(data: bytes) -> NodeState:
    version, held, is_cleared, mark = msgspec.msgpack.decode(data, type=tuple[int, bytes, bool, int])
    return NodeState(version, from_bitmap(held), is_cleared, mark)
