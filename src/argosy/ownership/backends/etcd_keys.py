"""The keys of ownership in etcd: the one place that spells them, for the code and for the generated page.

All keys of one space stand beneath `/<namespace>/<space>/`, so one watch sees them all. A node id or unit may hold any
printable character; each part is percent-encoded, so a slash in a name never makes a new part and one unit's bids are
never another's.
"""

from urllib.parse import quote, unquote

from argosy.base.key_docs import KeyDoc
from argosy.ownership.model import SessionRole, Space, Unit

KEY_DOCS = (
    KeyDoc("meta", "plain", "JSON: base, the wall clock in microseconds when the space was first opened here",
           "says that the store remembers; epochs and auction ids count from its base, so they grow even when the "
           "store is wiped and its revisions begin anew"),
    KeyDoc("grace", "on a lease of its own", "empty",
           "while it stands nothing is granted: a store without memory may have forgotten leases that still stand"),
    KeyDoc("members/<node>", "on the member session's lease", "JSON: what the node says about itself",
           "counts the node in: ring, bidding"),
    KeyDoc("holders/<node>", "on the holder session's lease", "JSON: the node and its address",
           "the promise on which the node's leases, bid and pending mark stand; they fall with it"),
    KeyDoc("leases/<unit>", "on the holder session's lease", "JSON: node, address, state, base and epoch, which is 0 "
           "in the write that grants: then the epoch is base plus the revision of that write", "who holds what"),
    KeyDoc("auctions/<unit>", "plain", "JSON: max_bids, window_s, base", "an auction that runs; written once"),
    KeyDoc("bids/<unit>/<node>", "on the bidder's holder lease", "JSON: address, free_bytes",
           "one bid; its revision is its place in the order, and that it stands says that the bidder lives"),
    KeyDoc("pending/<node>", "on the bidder's holder lease", "the unit", "a node has at most one bid pending"),
    KeyDoc("max_bids", "plain", "a number", "the threshold a controller pushed to all nodes"),
)  # fmt: skip

# Exit as they are because they are common in unit keys and URLs, and mean nothing in a path of ours.
_SAFE = ":@"


class EtcdKeys:
    """The keys of one space."""

    def __init__(self, prefix: str, namespace: str, space: Space) -> None:
        parts = [*prefix.split("/"), namespace, space.name]
        self.root = f"/{'/'.join(_part(part) for part in parts if part)}/".encode()
        self.meta = self.root + b"meta"
        self.grace = self.root + b"grace"
        self.max_bids = self.root + b"max_bids"

    def session(self, role: SessionRole, node: str) -> bytes:
        return self.sessions(role) + _part(node).encode()

    def sessions(self, role: SessionRole) -> bytes:
        return self.root + (b"members/" if role is SessionRole.MEMBER else b"holders/")

    def lease(self, unit: Unit) -> bytes:
        return self.root + b"leases/" + _part(unit.key).encode()

    def auction(self, unit: Unit) -> bytes:
        return self.root + b"auctions/" + _part(unit.key).encode()

    def bids(self, unit: Unit) -> bytes:
        return self.root + b"bids/" + _part(unit.key).encode() + b"/"

    def bid(self, unit: Unit, node: str) -> bytes:
        return self.bids(unit) + _part(node).encode()

    def pending(self, node: str) -> bytes:
        return self.root + b"pending/" + _part(node).encode()

    def split(self, key: bytes) -> tuple[str, ...]:
        """A key's decoded parts beneath the space: `("leases", "0:name")`."""
        return tuple(unquote(part) for part in key.removeprefix(self.root).decode().split("/"))


def _part(text: str) -> str:
    return quote(text, safe=_SAFE)
