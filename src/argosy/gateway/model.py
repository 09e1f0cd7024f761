"""The fleet as the gateway reports it: `GET /v1/fleet` and the web UI show these structs."""

from enum import Enum

import msgspec

from argosy.search.fleet.model import NodeStatus, RepoSpec, RepoStatus


class RepoState(Enum):
    """The state of a repository, from the best of its leases."""

    READY = "ready"
    DRAINING = "draining"  # still serves while it moves to another node
    WARMING = "warming"  # leased; being fetched, received or indexed
    UNOWNED = "unowned"  # no node holds a lease
    FAILED = "failed"  # no node holds a lease, and the last attempt failed


class SlotHolder(msgspec.Struct, frozen=True):
    """The node that holds the lease of one slot of a repository."""

    node: str
    address: str
    replica: int
    epoch: int
    state: str


class RepoView(msgspec.Struct, frozen=True):
    """A repository: its desired state, its holders, and the status that the best of them reports."""

    name: str
    state: RepoState
    spec: RepoSpec
    holders: tuple[SlotHolder, ...] = ()  # the primary first
    status: RepoStatus | None = None  # of the best holder, if its node responded
    reason: str = ""  # why it is not ready, or not up to date


class NodeView(msgspec.Struct, frozen=True):
    """A node with the status it reported, or with the reason why there is none."""

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
    """The fleet at one instant, as this gateway sees it."""

    at: float
    nodes: tuple[NodeView, ...] = ()
    repositories: tuple[RepoView, ...] = ()
    auctions: tuple[AuctionView, ...] = ()
    desired_nodes: int = 0
    reasons: tuple[str, ...] = ()  # for `desired_nodes`
