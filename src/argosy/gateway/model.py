"""What the front door knows of the fleet behind it, as it is shown to people and machines."""

from enum import Enum

import msgspec

from argosy.search.fleet.model import NodeStatus, RepoSpec, RepoStatus


class RepoState(Enum):
    """One word for how a repository is doing."""

    READY = "ready"
    DRAINING = "draining"  # answers, and moves to another node
    WARMING = "warming"  # held; being fetched, received or indexed
    UNOWNED = "unowned"  # nobody holds it yet
    FAILED = "failed"  # nobody holds it, and the last try failed


class SlotHolder(msgspec.Struct, frozen=True):
    """One node's lease of one slot of a repository."""

    node: str
    address: str
    replica: int
    epoch: int
    state: str


class RepoView(msgspec.Struct, frozen=True):
    """A repository: what is wished for it, who holds it, and how far that node is."""

    name: str
    state: RepoState
    wish: RepoSpec
    holders: tuple[SlotHolder, ...] = ()  # the primary first
    status: RepoStatus | None = None  # of the best seat, if its node answered
    reason: str = ""  # why it is not ready, or not up to date


class NodeView(msgspec.Struct, frozen=True):
    """A node: what it tells of itself, or why it could not be asked."""

    node: str
    address: str
    is_member: bool  # takes part in bidding
    leases: int
    status: NodeStatus | None = None
    problem: str = ""


class AuctionView(msgspec.Struct, frozen=True):
    repository: str
    replica: int
    id: int
    max_bids: int
    closes_in_s: float


class FleetStatus(msgspec.Struct, frozen=True):
    """The fleet at one instant, as this front door sees it."""

    at: float
    nodes: tuple[NodeView, ...] = ()
    repositories: tuple[RepoView, ...] = ()
    auctions: tuple[AuctionView, ...] = ()
    desired_nodes: int = 0
    reasons: tuple[str, ...] = ()  # why so many
