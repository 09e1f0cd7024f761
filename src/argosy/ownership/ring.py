"""Consistent hash ring: computes, from the member list alone, which node should hold each unit.

Each node has many points on a circle of 64-bit numbers, and a key belongs to the node at the first point at or after
the key's hash. A node's points depend only on its name, so all processes that see the same members compute the same
ring, and a change of members moves only the keys between old and new owner (OWN-5).
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from argosy.base.errors import Invalid
from argosy.base.hashing import hash64
from argosy.ownership.model import NODE_ID_MAX, check_name

# Ketama's number of points per server. Load of the fullest node as a multiple of the fair share, mean and worst of 100
# rings:
#                        3 nodes      10 nodes     50 nodes
#   of the circle        1.07 1.20    1.12 1.29    1.18 1.26
#   of 8 keys per node   1.30 1.75    1.57 2.12    1.92 2.75
# Four times as many points halve the excess of the first line; only more keys reduce the second.
VNODES = 160
VNODES_MAX = 10_000  # points of one node; a ring of 100 such nodes takes about two seconds to build


class Ring:
    """An immutable ring. Without nodes no key has an owner."""

    __slots__ = ("_nodes", "_owners", "_points", "_vnodes")

    def __init__(self, nodes: Iterable[str], *, vnodes: int = VNODES) -> None:
        if not 1 <= vnodes <= VNODES_MAX:
            raise Invalid(f"vnodes must be 1 to {VNODES_MAX}, not {vnodes}")
        # A set: a node named twice must not get twice the points.
        self._nodes = frozenset(check_name("a node id", node, NODE_ID_MAX) for node in nodes)
        self._vnodes = vnodes
        # Two nodes at one point are too rare for fairness to matter; the order by name only makes the result unique.
        marks = sorted((hash64(f"{node}#{i}"), node) for node in self._nodes for i in range(vnodes))
        self._points = [point for point, _ in marks]
        self._owners = [node for _, node in marks]

    @property
    def nodes(self) -> frozenset[str]:
        return self._nodes

    @property
    def vnodes(self) -> int:
        return self._vnodes

    def owner(self, key: str) -> str | None:
        """The node that should hold `key`."""
        return self._owners[self._start(key)] if self._owners else None

    def owners(self, key: str, count: int) -> tuple[str, ...]:
        """The first `count` distinct nodes from the key on: the owner, then replicas. Fewer if the ring has fewer
        nodes."""
        if count < 0:
            raise Invalid(f"count of owners of {key!r} must be 0 or more, not {count}")
        wanted = min(count, len(self._nodes))
        distinct: dict[str, None] = {}
        # Neighbouring points often belong to one node, so the walk continues until enough different ones are found.
        for node in self._clockwise(key):
            if len(distinct) == wanted:
                break
            distinct[node] = None
        assert len(distinct) == wanted
        return tuple(distinct)

    def keys_of(self, node: str, keys: Iterable[str]) -> frozenset[str]:
        """Those of `keys` that `node` should hold."""
        return frozenset(key for key in keys if self.owner(key) == node)

    def _start(self, key: str) -> int:
        at = bisect_left(self._points, hash64(key))
        # Behind the last point the circle begins again.
        return at if at < len(self._points) else 0

    def _clockwise(self, key: str) -> Iterator[str]:
        start = self._start(key)
        for at in range(len(self._owners)):
            yield self._owners[(start + at) % len(self._owners)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ring):
            return NotImplemented
        return (self._nodes, self._vnodes) == (other._nodes, other._vnodes)

    def __hash__(self) -> int:
        return hash((self._nodes, self._vnodes))

    def __repr__(self) -> str:
        return f"Ring({sorted(self._nodes)}, vnodes={self._vnodes})"


def moves(old: Ring, new: Ring, keys: Iterable[str]) -> dict[str, tuple[str | None, str | None]]:
    """Each key whose owner changes, with its old and new owner."""
    # Another number of points is another ring altogether: nearly all keys would move.
    if old.vnodes != new.vnodes:
        raise Invalid(f"cannot compare rings of {old.vnodes} and {new.vnodes} vnodes: use one number in the fleet")
    moved = {}
    for key in keys:
        before, after = old.owner(key), new.owner(key)
        if before != after:
            assert before not in new.nodes or after not in old.nodes, key  # OWN-5
            moved[key] = (before, after)
    return moved
