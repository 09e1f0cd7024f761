"""Builds the fleet status from the watched leases, the catalog and the status reports of nodes."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from argosy.gateway.ports import AuctionView, FleetStatus, NodeView, RepoState, RepoView, SlotHolder
from argosy.ownership.autoscale import ScaleSignal
from argosy.ownership.model import Lease, LeaseState
from argosy.ownership.view import FleetView
from argosy.search.fleet.model import NodeStatus, Phase, RepoSpec, RepoStatus

StatusReports = Mapping[str, NodeStatus | str]  # by address: the node's status, or why it is unknown

_STATES = {
    LeaseState.READY: RepoState.READY,
    LeaseState.DRAINING: RepoState.DRAINING,
    LeaseState.WARMING: RepoState.WARMING,
}
# A repository is searchable as soon as one of its holders serves, so its best lease decides its state.
_BEST_FIRST = (RepoState.READY, RepoState.DRAINING, RepoState.WARMING)


def node_addresses(view: FleetView) -> tuple[str, ...]:
    """Addresses of all members, and of holders that are no longer members."""
    members = (member.address for member in view.members.values())
    holders = (lease.address for lease in view.leases.values())
    return tuple(sorted({*members, *holders}))


def build_fleet_status(
    view: FleetView,
    specs: Mapping[str, RepoSpec],
    reports: StatusReports,
    signal: ScaleSignal,
    *,
    open_circuits: Collection[str] = (),
    now: float,
    wall: float,
) -> FleetStatus:
    """`open_circuits`: addresses whose circuit breaker is open."""
    held = _by_name(view.leases.values())
    known = {
        (address, repo.name): repo
        for address, status in reports.items()
        if isinstance(status, NodeStatus)
        for repo in status.repositories
    }
    return FleetStatus(
        at=wall,
        nodes=_nodes(view, reports, open_circuits),
        repositories=tuple(_repository(specs[name], held.get(name, []), known) for name in sorted(specs)),
        auctions=_auctions(view, now),
        desired_nodes=signal.desired_nodes,
        reasons=signal.reasons,
    )


def _by_name(leases: Iterable[Lease]) -> dict[str, list[Lease]]:
    """The leases of each repository: the primary first, successors last."""
    result: dict[str, list[Lease]] = {}
    for lease in leases:
        result.setdefault(lease.unit.name, []).append(lease)
    for held in result.values():
        # Successors have negative slot numbers, and do not serve yet.
        held.sort(key=lambda lease: (lease.unit.replica < 0, lease.unit.replica))
    return result


def _nodes(view: FleetView, reports: StatusReports, open_circuits: Collection[str]) -> tuple[NodeView, ...]:
    counts = Counter((lease.node, lease.address) for lease in view.leases.values())
    members = {(member.node, member.address) for member in view.members.values()}
    found = []
    for node, address in sorted({*counts, *members}):
        report = reports.get(address, "no status requested yet")
        status, problem = (None, report) if isinstance(report, str) else (report, "")
        if not problem and address in open_circuits:
            problem = "circuit breaker open after repeated failures"
        is_member = (node, address) in members
        found.append(NodeView(node, address, is_member, counts[node, address], status, problem))
    return tuple(found)


def _repository(spec: RepoSpec, held: list[Lease], known: Mapping[tuple[str, str], RepoStatus]) -> RepoView:
    holders = tuple(
        SlotHolder(lease.node, lease.address, lease.unit.replica, lease.epoch, lease.state.value) for lease in held
    )
    state, best = _state(spec, held)
    status = known.get((best.address, spec.name)) if best is not None else None
    return RepoView(spec.name, state, spec, holders, status, _reason(state, spec, status))


def _state(spec: RepoSpec, held: list[Lease]) -> tuple[RepoState, Lease | None]:
    """The state of the repository, and the lease it is derived from."""
    for state in _BEST_FIRST:
        for lease in held:
            if _STATES[lease.state] is state:
                return state, lease
    return (RepoState.FAILED if spec.failures else RepoState.UNOWNED), None


def _reason(state: RepoState, spec: RepoSpec, status: RepoStatus | None) -> str:
    if status is not None and status.reason:
        return status.reason  # also of a repository that serves but could not be refreshed
    if state in (RepoState.READY, RepoState.DRAINING):
        return ""
    if spec.last_error:
        return spec.last_error
    if status is not None and status.phase is not Phase.READY:
        return str(status.phase.value)
    return "no node holds a lease" if state is RepoState.UNOWNED else ""


def _auctions(view: FleetView, now: float) -> tuple[AuctionView, ...]:
    return tuple(
        AuctionView(unit.name, unit.replica, auction.id, auction.max_bids, max(0.0, view.closes_at[unit] - now))
        for unit, auction in sorted(view.auctions.items(), key=lambda each: each[0])
    )
