"""Who is responsible for which slot: the members of the query layer, in numbered versions.

A layout is settled, or it moves from a former one to the present: then a write goes to the owners in both, and a read
to the former ones first, who have everything. The next version is settled again. Every request says by which version it
was sent, and a node answers only its own, so nobody writes or reads past a change.

    version 1   a b c        settled
    version 2   a b c → d    moving: d gathers its slots from a, b and c
    version 3   a b c d      settled: what no longer belongs to a, b and c is deleted
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import msgspec

from argosy.base.errors import Invalid
from argosy.base.hashing import hash64
from argosy.ipni.indexer_wire import normalize_url
from argosy.ipni.keyspace.slots import SLOTS
from argosy.ownership.ring import Ring

NODES_MAX = 256
REPLICAS_MAX = 16
FOUNDING = 1  # the version at which nodes begin empty and have all the same what they own

Owners = tuple[tuple[str, ...], ...]  # by slot, the first owner first


# Two sides of one move, and those of the next: a ring takes tens of milliseconds, and every request needs it.
@lru_cache(maxsize=8)
def _owners(nodes: frozenset[str], replicas: int) -> Owners:
    ring = Ring(nodes)
    return tuple(ring.owners(f"slot {slot}", replicas) for slot in range(SLOTS))


@lru_cache(maxsize=8)
def _slots(nodes: frozenset[str], replicas: int) -> Mapping[str, frozenset[int]]:
    owned: dict[str, set[int]] = {name: set() for name in nodes}
    for slot, owners in enumerate(_owners(nodes, replicas)):
        for name in owners:
            owned[name].add(slot)
    return {name: frozenset(slots) for name, slots in owned.items()}


@dataclass(frozen=True)
class NodeSet:
    """One set of members, each with its URL, and how many of them have each slot."""

    nodes: Mapping[str, str] = field(hash=False)
    replicas: int = 1

    def __post_init__(self) -> None:
        if not 1 <= len(self.nodes) <= NODES_MAX:
            raise Invalid(f"a query layer has 1 to {NODES_MAX} nodes, not {len(self.nodes)}")
        if not 1 <= self.replicas <= REPLICAS_MAX:
            raise Invalid(f"replicas must be 1 to {REPLICAS_MAX}, not {self.replicas}")
        if len(set(self.nodes.values())) != len(self.nodes):
            raise Invalid("two nodes of the query layer have the same URL: every node has one of its own")

    @cached_property
    def owners(self) -> Owners:
        return _owners(frozenset(self.nodes), self.replicas)

    def slots_of(self, node: str) -> frozenset[int]:
        return _slots(frozenset(self.nodes), self.replicas).get(node, frozenset())


@dataclass(frozen=True)
class KeyspaceLayout:
    """`former` is there while slots move; the `lost` are members of it that will not come back with their data."""

    version: int
    now: NodeSet
    previous: NodeSet | None = None
    lost: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.version < FOUNDING:
            raise Invalid(f"the version of a layout is {FOUNDING} or more, not {self.version}")
        if self.previous is None:
            if self.lost:
                raise Invalid(f"{', '.join(sorted(self.lost))} cannot be lost in a finalize layout: leave them out")
            return
        if self.version == FOUNDING:
            raise Invalid(f"version {FOUNDING} cannot be moving: nothing was before it")
        if stray := sorted(self.lost - set(self.previous.nodes)) or sorted(self.lost & set(self.now.nodes)):
            raise Invalid(f"{stray[0]} is lost: it must be among the previous nodes, and not among the new ones")
        moved = [name for name, url in self.now.nodes.items() if self.previous.nodes.get(name, url) != url]
        if moved:
            raise Invalid(f"{moved[0]} has two URLs: settle first, then change it in a version of its own")

    @cached_property
    def mark(self) -> int:
        """What tells it from another that has the same version by mistake."""
        sides = [(sorted(side.nodes.items()), side.replicas) for side in (self.now, self.previous) if side]
        return hash64(repr((self.version, sides, sorted(self.lost))))

    @cached_property
    def urls(self) -> Mapping[str, str]:
        """Every node that takes part."""
        both = {**(self.previous.nodes if self.previous else {}), **self.now.nodes}
        return {name: url for name, url in both.items() if name not in self.lost}

    @cached_property
    def owners(self) -> Owners:
        """By slot, all who must have a write before it counts, in the order in which to ask them in a read: while slots
        move the former owners come first, and the new ones decline until they have theirs."""
        if self.previous is None:
            return self.now.owners
        return tuple(
            tuple(dict.fromkeys([*(name for name in old if name not in self.lost), *new]))
            for old, new in zip(self.previous.owners, self.now.owners, strict=True)
        )


def start_move(
    layout: KeyspaceLayout, nodes: Mapping[str, str], *, replicas: int | None = None, lost: frozenset[str] = frozenset()
) -> KeyspaceLayout:
    """The next version, moving to these nodes. Those among the former that are `lost` are neither read nor written."""
    if layout.previous is not None:
        raise Invalid(f"layout {layout.version} is still moving: settle it before the next change")
    return KeyspaceLayout(layout.version + 1, NodeSet(nodes, replicas or layout.now.replicas), layout.now, lost)


def finalize(layout: KeyspaceLayout) -> KeyspaceLayout:
    """The version after a move; every node refuses it that has not got all its slots."""
    if layout.previous is None:
        raise Invalid(f"layout {layout.version} is finalize already")
    return KeyspaceLayout(layout.version + 1, layout.now)


def revert(layout: KeyspaceLayout) -> KeyspaceLayout:
    """The version after a move that shall not be: all as it was before."""
    if layout.previous is None:
        raise Invalid(f"layout {layout.version} is finalize: there is nothing to give up")
    if layout.lost:
        raise Invalid(f"layout {layout.version} has lost {', '.join(sorted(layout.lost))}: it cannot be as it was")
    return KeyspaceLayout(layout.version + 1, layout.previous)


@dataclass(frozen=True)
class SlotMove:
    """`sources` have the slot, the one to ask first at the front; with none the slot's data is lost."""

    slot: int
    to: str
    sources: tuple[str, ...]


def moves(layout: KeyspaceLayout) -> list[SlotMove]:
    """All of them, by slot; none if the layout is settled."""
    if layout.previous is None:
        return []
    found = []
    for slot, (old, new) in enumerate(zip(layout.previous.owners, layout.now.owners, strict=True)):
        having = [name for name in old if name not in layout.lost]
        at = slot % len(having) if having else 0  # so that all who have it share the work
        found += [SlotMove(slot, name, (*having[at:], *having[:at])) for name in new if name not in old]
    return found


def gains(layout: KeyspaceLayout, node: str) -> list[SlotMove]:
    """What one node has to gather."""
    return [each for each in moves(layout) if each.to == node]


def orphans(layout: KeyspaceLayout) -> frozenset[int]:
    """Slots of which all owners are lost: they begin empty, and their publishers must be ingested again."""
    return frozenset(each.slot for each in moves(layout) if not each.sources)


def next_pull(left: Sequence[SlotMove], *, failures: int, slots_max: int) -> tuple[str, list[int]]:
    """Whom to ask for which slots next; after failures somebody else, where there is somebody."""
    names = list(dict.fromkeys(name for each in left for name in each.sources))
    if not names:
        return "", []
    source = names[failures % len(names)]
    first = [each.slot for each in left if each.sources[:1] == (source,)]
    if failures >= len(names) or not first:  # every source was tried with its own share: now with any
        first = [each.slot for each in left if source in each.sources]
    return source, first[:slots_max]


class _Side(msgspec.Struct, forbid_unknown_fields=True):
    nodes: dict[str, str]
    replicas: int = 1


class _Layout(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    version: int
    nodes: dict[str, str]
    replicas: int = 1
    previous: _Side | None = None
    lost: list[str] = []


def parse_layout(text: str, *, is_toml: bool = False) -> KeyspaceLayout:
    try:
        document = msgspec.convert(tomllib.loads(text), _Layout) if is_toml else msgspec.json.decode(text, type=_Layout)
    except (tomllib.TOMLDecodeError, msgspec.DecodeError) as why:
        raise Invalid(f"the layout file is not what it should be: {why}") from None
    previous = _side(document.previous.nodes, document.previous.replicas) if document.previous else None
    return KeyspaceLayout(
        document.version, _side(document.nodes, document.replicas), previous, frozenset(document.lost)
    )


def format_layout(layout: KeyspaceLayout) -> str:
    """The file of a layout, as JSON."""
    previous = _Side(dict(layout.previous.nodes), layout.previous.replicas) if layout.previous else None
    document = _Layout(layout.version, dict(layout.now.nodes), layout.now.replicas, previous, sorted(layout.lost))
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _side(nodes: dict[str, str], replicas: int) -> NodeSet:
    return NodeSet({name: normalize_url(url) for name, url in sorted(nodes.items())}, replicas)
