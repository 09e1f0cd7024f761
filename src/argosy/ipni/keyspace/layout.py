"""The keyspace: slots of multihashes, and the layout that assigns them to query nodes.

A slot is all multihashes whose digests begin with the same bits. It is the unit that has owners, moves and is cleared;
in a store sorted by digest it is one range.

A layout is a numbered version of the membership. It is settled, or it moves from the previous nodes to the present
ones: then a write goes to the owners in both, and a read first to the previous owners, which have everything. Every
request carries a version, and a node serves only its own, so no request reads or writes past a change.

    version 1   a b c        settled
    version 2   a b c → d    moving: d fetches its slots from a, b and c
    version 3   a b c d      settled: a, b and c delete what they no longer own
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import msgspec

from argosy.base.errors import Invalid
from argosy.base.hashing import hash64
from argosy.ipni.formats import multihash as multihashes
from argosy.ipni.indexer_wire import normalize_url
from argosy.ownership.ring import Ring

SLOT_BITS = 12
SLOTS = 1 << SLOT_BITS  # about 80 per node at 50 nodes: finer slots would not make the ring's distribution more even
_SPARE_BITS = 16 - SLOT_BITS
_BITMAP_BYTES = SLOTS // 8


def slot_of(multihash: bytes) -> int:
    """The slot of a multihash. Digests are claims, so a publisher can crowd one slot; that loads its owners only."""
    if len(multihash) == 34 and multihash.startswith(b"\x12\x20"):
        return (multihash[2] << 8 | multihash[3]) >> _SPARE_BITS
    digest = multihashes.split(multihash)[1]
    return int.from_bytes(digest[:2].ljust(2, b"\0"), "big") >> _SPARE_BITS


def by_slot(hashes: Sequence[bytes]) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    for each in hashes:
        found.setdefault(slot_of(each), []).append(each)
    return found


def bounds(slot: int) -> tuple[bytes, bytes]:
    """The first digest prefixes of the slot and of the next one; empty after the last slot."""
    after = slot + 1
    return _begin(slot), _begin(after) if after < SLOTS else b""


def to_bitmap(slots: Iterable[int]) -> bytes:
    return sum(1 << slot for slot in set(slots)).to_bytes(_BITMAP_BYTES, "big")


def from_bitmap(data: bytes) -> frozenset[int]:
    if len(data) != _BITMAP_BYTES:
        raise Invalid(f"a set of slots has {_BITMAP_BYTES} bytes, not {len(data)}")
    bits = int.from_bytes(data, "big")
    return frozenset(slot for slot in range(SLOTS) if bits >> slot & 1)


def _begin(slot: int) -> bytes:
    return (slot << _SPARE_BITS).to_bytes(2, "big")


# Every node receives every value and every removal, so a write costs a request to each of them.
NODES_MAX = 256
REPLICAS_MAX = 16
FOUNDING = 1  # the version at which empty nodes own their slots; later an empty node would lack data

Owners = tuple[tuple[str, ...], ...]  # by slot, the first owner first


# Cached for both sides of a move and of the next one: building a ring takes tens of milliseconds, and every request
# needs the owners.
@lru_cache(maxsize=8)
def _owners(nodes: frozenset[str], replicas: int) -> Owners:
    # The ring that also places repositories: when a node joins or leaves, only its share of the slots moves.
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
    """A set of nodes with their URLs, and the number of nodes per slot."""

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
    """`previous` is set while slots move; `lost` are nodes of it whose data is gone."""

    version: int
    now: NodeSet
    previous: NodeSet | None = None
    lost: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.version < FOUNDING:
            raise Invalid(f"the version of a layout is {FOUNDING} or more, not {self.version}")
        if self.previous is None:
            if self.lost:
                raise Invalid(f"{', '.join(sorted(self.lost))} cannot be lost in a settled layout; remove them")
            return
        if self.version == FOUNDING:
            raise Invalid(f"version {FOUNDING} cannot be moving, because it has no previous version")
        # A lost node's data cannot be fetched from, and a node that is to have data cannot be lost.
        if stray := sorted(self.lost - set(self.previous.nodes)) or sorted(self.lost & set(self.now.nodes)):
            raise Invalid(f"{stray[0]} is lost; it must be among the previous nodes and not among the new ones")
        # A name has one URL in `urls`, so requests to the previous side would go to the new address.
        moved = [name for name, url in self.now.nodes.items() if self.previous.nodes.get(name, url) != url]
        if moved:
            raise Invalid(
                f"{moved[0]} has two URLs; finalize this move first, then change the URL in a version of its own"
            )

    @cached_property
    def mark(self) -> int:
        """A hash of the layout, which detects two different files with the same version."""
        sides = [(sorted(side.nodes.items()), side.replicas) for side in (self.now, self.previous) if side]
        return hash64(repr((self.version, sides, sorted(self.lost))))

    @cached_property
    def urls(self) -> Mapping[str, str]:
        """All nodes of both sides with their URLs, without the lost ones."""
        both = {**(self.previous.nodes if self.previous else {}), **self.now.nodes}
        return {name: url for name, url in both.items() if name not in self.lost}

    @cached_property
    def owners(self) -> Owners:
        """The owners of each slot: all must confirm a write, and reads try them in this order. While slots move, the
        previous owners come first, and the new ones decline until they have the slot."""
        if self.previous is None:
            return self.now.owners
        return tuple(
            tuple(dict.fromkeys([*(name for name in old if name not in self.lost), *new]))
            for old, new in zip(self.previous.owners, self.now.owners, strict=True)
        )


def start_move(
    layout: KeyspaceLayout, nodes: Mapping[str, str], *, replicas: int | None = None, lost: frozenset[str] = frozenset()
) -> KeyspaceLayout:
    """The next version, moving to these nodes. The `lost` ones of the previous nodes are neither read nor written."""
    if layout.previous is not None:
        raise Invalid(f"layout {layout.version} is still moving; finalize it before the next change")
    return KeyspaceLayout(layout.version + 1, NodeSet(nodes, replicas or layout.now.replicas), layout.now, lost)


def finalize(layout: KeyspaceLayout) -> KeyspaceLayout:
    """The version after a move; a node without all its slots rejects it."""
    if layout.previous is None:
        raise Invalid(f"layout {layout.version} is already settled")
    return KeyspaceLayout(layout.version + 1, layout.now)


def revert(layout: KeyspaceLayout) -> KeyspaceLayout:
    """The version that undoes a move: the nodes are the previous ones again."""
    if layout.previous is None:
        raise Invalid(f"layout {layout.version} is settled; there is no move to revert")
    # The lost node received no writes during the move, so it could not own its slots again.
    if layout.lost:
        raise Invalid(f"layout {layout.version} has lost {', '.join(sorted(layout.lost))}: the move cannot be reverted")
    return KeyspaceLayout(layout.version + 1, layout.previous)


@dataclass(frozen=True)
class SlotMove:
    """A slot that a node gains; `sources` have it, in the order to try them. Without sources the slot's data is
    lost."""

    slot: int
    to: str
    sources: tuple[str, ...]


def moves(layout: KeyspaceLayout) -> list[SlotMove]:
    """All moves, by slot; none if the layout is settled."""
    if layout.previous is None:
        return []
    found = []
    for slot, (old, new) in enumerate(zip(layout.previous.owners, layout.now.owners, strict=True)):
        having = [name for name in old if name not in layout.lost]
        at = slot % len(having) if having else 0  # so that the previous owners share the work
        found += [SlotMove(slot, name, (*having[at:], *having[:at])) for name in new if name not in old]
    return found


def gains(layout: KeyspaceLayout, node: str) -> list[SlotMove]:
    """The slots that one node has to fetch."""
    return [each for each in moves(layout) if each.to == node]


def orphans(layout: KeyspaceLayout) -> frozenset[int]:
    """Slots whose previous owners are all lost: they start empty, and their publishers must be ingested again."""
    return frozenset(each.slot for each in moves(layout) if not each.sources)


def next_pull(left: Sequence[SlotMove], *, failures: int, slots_max: int) -> tuple[str, list[int]]:
    """The source to fetch from next, and which slots; after failures another source, if there is one."""
    names = list(dict.fromkeys(name for each in left for name in each.sources))
    if not names:
        return "", []
    # Rotates at each failure, so that one unreachable source does not stop the fetch of the other slots.
    source = names[failures % len(names)]
    first = [each.slot for each in left if each.sources[:1] == (source,)]
    if failures >= len(names) or not first:  # every source was tried with its own share; now with any slot that it has
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
        raise Invalid(f"the layout file is invalid: {why}") from None
    previous = _side(document.previous.nodes, document.previous.replicas) if document.previous else None
    return KeyspaceLayout(
        document.version, _side(document.nodes, document.replicas), previous, frozenset(document.lost)
    )


def format_layout(layout: KeyspaceLayout) -> str:
    """The layout as a JSON file."""
    previous = _Side(dict(layout.previous.nodes), layout.previous.replicas) if layout.previous else None
    document = _Layout(layout.version, dict(layout.now.nodes), layout.now.replicas, previous, sorted(layout.lost))
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _side(nodes: dict[str, str], replicas: int) -> NodeSet:
    return NodeSet({name: normalize_url(url) for name, url in sorted(nodes.items())}, replicas)
