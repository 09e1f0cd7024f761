"""The keys of ownership in Redis: the one place that spells them, for the code, the scripts and the generated page.

All keys of one space share the hash tag `{namespace:space}`, so in a Redis Cluster they live on one node and one script
may touch them all. Scripts see the keys under the upper-case form of the names below: `leases` is `LEASES`.
"""

from argosy.base.errors import Invalid
from argosy.base.key_docs import KeyDoc
from argosy.ownership.model import Space, Unit

# Every script is given all of these, in this order, as KEYS.
SHARED_KEYS = (
    KeyDoc("meta", "hash", "schema, run_id, since_ms, sequence, facts",
           "which run of the server this data was last seen by and since when (grants wait for the grace after that, "
           "and epochs count from there), the counter of bids and auctions, the number of the last fact told"),
    KeyDoc("members", "sorted set", "node id, scored by the end of its member session in server milliseconds",
           "trimmed and counted: the heartbeat by which nodes are live"),
    KeyDoc("holders", "sorted set", "node id, scored by the end of its holder session in server milliseconds",
           "all leases of a node end with this one promise"),
    KeyDoc("member_info", "hash", "node id → JSON of token, address and what the node says about itself",
           "a namesake with another token is noticed"),
    KeyDoc("holder_info", "hash", "node id → JSON of token, address and what the node says about itself",
           "a namesake with another token is noticed"),
    KeyDoc("bidding", "set", "node ids of the members that would take one more unit",
           "its size, fixed when an auction opens, is how many bids close it early"),
    KeyDoc("leases", "hash", "unit → JSON of node, address, token, epoch and state", "who holds what"),
    KeyDoc("epochs", "hash", "unit → the epoch of its newest lease", "epochs grow even across leases"),
    KeyDoc("held", "sorted set", "node id, a zero byte, unit; all scored 0, so in lexicographic order",
           "finds the units of one node without looking at the others'"),
    KeyDoc("auctions", "hash", "unit → JSON of id, max_bids, opened_ms and closes_ms", "the auctions that run"),
    KeyDoc("pending", "hash", "node id → JSON of unit and expires_ms", "a node has at most one bid pending"),
    KeyDoc("config", "hash", "max_bids", "the threshold a controller pushed to all nodes"),
    KeyDoc("events", "stream", "number, kind and JSON of each fact, cut at about FACTS_KEPT_MAX", "what watchers read"),
)  # fmt: skip

BIDS_KEY = KeyDoc(
    "bids:<unit>",
    "hash",
    "node id → JSON of free_bytes, order, token and address",
    "the bids of one auction; gone with it",
)
MAX_BIDS_CHANNEL = KeyDoc(
    "max_bids_changed",
    "channel",
    "the new threshold, or nothing when none is pushed any more",
    "a plain message for subscribers that do not read the stream",
)
KEY_DOCS = (*SHARED_KEYS, BIDS_KEY, MAX_BIDS_CHANNEL)


class Keys:
    """The keys of one space."""

    def __init__(self, namespace: str, space: Space) -> None:
        if not namespace or not all(c.isalnum() or c in "-_." for c in namespace):
            # A brace or a colon would end the hash tag early or make two spaces share one.
            raise Invalid(f"a namespace has letters, digits, '-', '_' and '.' only, not {namespace!r}")
        self.prefix = f"{{{namespace}:{space.name}}}:"
        self.shared = tuple(self.prefix + doc.name for doc in SHARED_KEYS)
        self.meta = self._of("meta")
        self.events = self._of("events")
        self.bids_stem = self.prefix + "bids:"
        self.channel = self.prefix + MAX_BIDS_CHANNEL.name

    def bids(self, unit: Unit) -> str:
        return self.bids_stem + unit.key

    def _of(self, name: str) -> str:
        assert any(doc.name == name for doc in SHARED_KEYS)
        return self.prefix + name


def lua_names() -> str:
    """The lines that give the scripts' KEYS their names; all further keys of one call follow after the shared ones."""
    return "".join(f"local {doc.name.upper()} = KEYS[{n}]\n" for n, doc in enumerate(SHARED_KEYS, start=1))
