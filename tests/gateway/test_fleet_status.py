"""The fleet at one instant: every repository and every node, with what is known and what is not."""

from argosy.gateway.fleet_status import build_fleet_status, node_addresses
from argosy.gateway.ports import RepoState
from argosy.ownership.autoscale import ScaleSignal
from argosy.ownership.events import AuctionOpened, Snapshot
from argosy.ownership.model import SUCCESSOR, Auction, Lease, LeaseState, Member, Unit
from argosy.ownership.view import FleetView
from argosy.search.fleet.model import NodeStatus, Phase, RepoSpec, RepoStatus

SIGNAL = ScaleSignal(3, 2, ("busy",), 0, 0, 0.0, 0.0, None, ())


def lease(name: str, node: str, replica: int = 0, state: LeaseState = LeaseState.READY) -> Lease:
    return Lease(Unit(name, replica), node, f"{node}:80", "token", 7, state)


def view(*leases: Lease) -> FleetView:
    fleet = FleetView()
    fleet.apply(Snapshot(leases, (Member("n1", "n1:80"), Member("n3", "n3:80"))), 0.0)
    return fleet


def status(node: str, *repositories: RepoStatus) -> NodeStatus:
    return NodeStatus(node, f"{node}:80", "1", 0.0, False, 100, 50, 50, repositories)


def test_members_and_holders_are_queried() -> None:
    assert node_addresses(view(lease("a", "n2"))) == ("n1:80", "n2:80", "n3:80")


def test_holders_are_listed_primary_first_and_successor_last() -> None:
    fleet = view(lease("a", "n3", SUCCESSOR), lease("a", "n2", 1), lease("a", "n1", state=LeaseState.DRAINING))
    statuses = {"n2:80": status("n2", RepoStatus("a", Phase.READY, documents=5))}
    shown = build_fleet_status(fleet, {"a": RepoSpec("a", "url")}, statuses, SIGNAL, now=0.0, wall=9.0)
    [repository] = shown.repositories
    assert [(holder.node, holder.replica, holder.epoch, holder.state) for holder in repository.holders] == [
        ("n1", 0, 7, "draining"),
        ("n2", 1, 7, "ready"),
        ("n3", -1, 7, "ready"),
    ]
    assert repository.state is RepoState.READY
    assert repository.status is not None
    assert repository.status.documents == 5
    assert (shown.at, shown.desired_nodes, shown.reasons) == (9.0, 3, ("busy",))


def test_a_repository_that_is_not_ready_has_the_reason() -> None:
    fleet = view(lease("b", "n1", state=LeaseState.WARMING), lease("c", "n1", state=LeaseState.WARMING))
    specs = {
        "a": RepoSpec("a", "url", failures=1, last_error="no such host"),
        "b": RepoSpec("b", "url"),
        "c": RepoSpec("c", "url"),
        "d": RepoSpec("d", "url"),
    }
    failed = RepoStatus("c", Phase.FAILED, reason="out of disk")
    statuses = {"n1:80": status("n1", RepoStatus("b", Phase.FETCHING), failed)}
    shown = build_fleet_status(fleet, specs, statuses, SIGNAL, now=0.0, wall=0.0)
    assert [(each.name, each.state, each.reason) for each in shown.repositories] == [
        ("a", RepoState.FAILED, "no such host"),
        ("b", RepoState.WARMING, "fetching"),
        ("c", RepoState.WARMING, "out of disk"),
        ("d", RepoState.UNOWNED, "no node holds a lease"),
    ]


def test_a_serving_repository_that_cannot_be_refreshed_has_the_reason() -> None:
    fleet = view(lease("a", "n1"), lease("b", "n1"))
    statuses = {
        "n1:80": status("n1", RepoStatus("a", Phase.READY, reason="no such host"), RepoStatus("b", Phase.READY))
    }
    specs = {"a": RepoSpec("a", "url"), "b": RepoSpec("b", "url")}
    shown = build_fleet_status(fleet, specs, statuses, SIGNAL, now=0.0, wall=0.0)
    assert [(each.state, each.reason) for each in shown.repositories] == [
        (RepoState.READY, "no such host"),
        (RepoState.READY, ""),
    ]


def test_unreachable_nodes_open_circuits_and_leaving_nodes_are_shown() -> None:
    statuses: dict[str, NodeStatus | str] = {"n1:80": status("n1"), "n2:80": "connection refused"}
    shown = build_fleet_status(view(lease("a", "n2")), {}, statuses, SIGNAL, open_circuits=["n1:80"], now=0.0, wall=0.0)
    assert [(node.node, node.is_member, node.leases, node.problem) for node in shown.nodes] == [
        ("n1", True, 0, "circuit breaker open after repeated failures"),
        ("n2", False, 1, "connection refused"),
        ("n3", True, 0, "no status requested yet"),
    ]
    assert shown.nodes[0].status == statuses["n1:80"]


def test_auctions_are_shown_with_the_time_they_have_left() -> None:
    fleet = view()
    fleet.apply(AuctionOpened(Auction(Unit("a"), 4, 3, 10.0)), 100.0)
    [auction] = build_fleet_status(fleet, {}, {}, SIGNAL, now=104.0, wall=0.0).auctions
    assert (auction.repository, auction.id, auction.max_bids, auction.closes_in_s) == ("a", 4, 3, 6.0)
