"""View model of the fleet page: nodes with a treemap of their memory, auctions, unowned repositories.

The treemap is squarified (Bruls, Huizing and van Wijk): it lays out weights as nearly square rectangles that fill a
box. The largest weights come first, in strips along the shorter side; a strip grows while that improves its worst
aspect ratio.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from argosy.base.redact import redact
from argosy.gateway.ports import FleetStatus, NodeView, RepoState
from argosy.gateway.ui.links import folder_url
from argosy.gateway.ui.number_format import count_text, duration_text, size_text
from argosy.gateway.ui.repos import role, state_counts
from argosy.search.fleet.model import NodeStatus, Phase, RepoStatus


class TreemapBox(NamedTuple):
    x: float
    y: float
    width: float
    height: float


def treemap(weights: Sequence[float], box: TreemapBox) -> list[TreemapBox]:
    """One rectangle per weight, in the same order, with proportional area. Weights must be positive."""
    assert all(weight > 0 for weight in weights), weights
    total = sum(weights)
    # The algorithm needs descending areas; positions are restored at the end.
    order = sorted(range(len(weights)), key=lambda number: -weights[number])
    areas = [weights[number] * box.width * box.height / total for number in order] if total else []
    placed: list[TreemapBox] = []
    left, at = box, 0
    while at < len(areas):
        count = _strip(areas, at, min(left.width, left.height))
        strip, left = _lay_out(areas[at : at + count], left)
        placed += strip
        at += count
    found: list[TreemapBox] = [box] * len(weights)
    for number, place in zip(order, placed, strict=True):
        found[number] = place
    return found


def _strip(areas: Sequence[float], at: int, side: float) -> int:
    """The number of areas in the next strip, starting at `at`."""
    count, total, worst = 1, areas[at], _worst(areas[at], areas[at], areas[at], side)
    while at + count < len(areas):
        total += areas[at + count]
        next_worst = _worst(areas[at], areas[at + count], total, side)
        if next_worst > worst:
            break
        count, worst = count + 1, next_worst
    return count


def _worst(largest: float, smallest: float, total: float, side: float) -> float:
    """The worst aspect ratio in a strip of this total area along this side."""
    if side <= 0 or smallest <= 0:
        return float("inf")
    return max(side * side * largest / (total * total), total * total / (side * side * smallest))


def _lay_out(areas: Sequence[float], box: TreemapBox) -> tuple[list[TreemapBox], TreemapBox]:
    """Lay out a strip along the shorter side; returns its boxes and the rest of the box."""
    total, placed = sum(areas), []
    if box.width >= box.height:
        depth, y = total / box.height if box.height else 0.0, box.y
        for area in areas:
            length = area / depth if depth else 0.0
            placed.append(TreemapBox(box.x, y, depth, length))
            y += length
        return placed, TreemapBox(box.x + depth, box.y, max(0.0, box.width - depth), box.height)
    depth, x = total / box.width, box.x
    for area in areas:
        length = area / depth if depth else 0.0
        placed.append(TreemapBox(x, box.y, length, depth))
        x += length
    return placed, TreemapBox(box.x, box.y + depth, box.width, max(0.0, box.height - depth))


TILES_MAX = 400  # per node, the largest first; the rest are counted
BOX = TreemapBox(0.0, 0.0, 440.0, 130.0)
AUCTIONS_MAX = 100
WAITING_MAX = 50
SMALLEST_SHARE = 1 / 150  # of a treemap: smaller tiles could be neither seen nor clicked
LETTER_WIDTH, LETTER_HEIGHT = 6.4, 14.0


@dataclass(frozen=True, slots=True)
class NodeTile:
    box: TreemapBox
    name: str
    label: str  # what of the name fits
    detail: str
    state: str
    url: str


@dataclass(frozen=True, slots=True)
class NodeCard:
    name: str
    address: str
    state: str  # ready, draining, joining, silent
    leases: int
    held: str
    budget: str
    free: str
    share: float  # of the budget that is held, 0 to 100
    up: str  # how long it has been
    version: str
    problem: str
    tiles: tuple[NodeTile, ...]
    omitted: int  # repositories without a tile


@dataclass(frozen=True, slots=True)
class AuctionRow:
    repository: str
    url: str
    replica: int
    max_bids: int
    closes_in_s: float


@dataclass(frozen=True, slots=True)
class FleetPage:
    nodes: tuple[NodeCard, ...]
    states: tuple[tuple[str, int], ...]
    waiting: tuple[tuple[str, str, str], ...]  # unowned repositories: name, state, reason
    more_waiting: int
    auctions: tuple[AuctionRow, ...]
    more_auctions: int
    live_nodes: int
    desired_nodes: int
    reasons: tuple[str, ...]
    held: str
    budget: str
    at: float


def fleet_page(status: FleetStatus) -> FleetPage:
    report = [node.status for node in status.nodes if node.status]
    waiting = [view for view in status.repositories if view.state in (RepoState.UNOWNED, RepoState.FAILED)]
    return FleetPage(
        nodes=tuple(_card(node, status.at) for node in sorted(status.nodes, key=lambda node: node.node)),
        states=state_counts(status.repositories),
        waiting=tuple((view.name, view.state.value, redact(view.reason)) for view in waiting[:WAITING_MAX]),
        more_waiting=max(0, len(waiting) - WAITING_MAX),
        auctions=tuple(
            AuctionRow(
                each.repository, folder_url(each.repository), each.replica, each.max_bids, max(0.0, each.closes_in_s)
            )
            for each in sorted(status.auctions, key=lambda each: each.closes_in_s)[:AUCTIONS_MAX]
        ),
        more_auctions=max(0, len(status.auctions) - AUCTIONS_MAX),
        live_nodes=sum(node.is_member for node in status.nodes),
        desired_nodes=status.desired_nodes,
        reasons=status.reasons,
        held=size_text(sum(node.held_bytes for node in report)),
        budget=size_text(sum(node.budget_bytes for node in report)),
        at=status.at,
    )


def _card(node: NodeView, now: float) -> NodeCard:
    report = node.status
    tiles = _tiles(report.repositories) if report else ()
    return NodeCard(
        name=node.node,
        address=node.address,
        state=_state(node),
        leases=node.leases,
        held=size_text(report.held_bytes) if report else "–",
        budget=size_text(report.budget_bytes) if report else "–",
        free=size_text(report.free_bytes) if report else "–",
        share=_share(report) if report else 0.0,
        up=duration_text(max(0.0, now - report.started_at)) if report else "",
        version=report.version if report else "",
        problem=redact(node.problem),
        tiles=tiles,
        # Counted, so that a page with many repositories does not look complete.
        omitted=len(report.repositories) - len(tiles) if report else 0,
    )


def _state(node: NodeView) -> str:
    if node.status is None:
        return "silent"
    if node.status.is_draining:
        return "draining"
    return "ready" if node.is_member else "joining"


def _share(report: NodeStatus) -> float:
    return min(100.0, 100.0 * report.held_bytes / report.budget_bytes) if report.budget_bytes > 0 else 0.0


def _tiles(repositories: Iterable[RepoStatus]) -> tuple[NodeTile, ...]:
    """The treemap of the largest repositories by memory, with a minimum size per tile."""
    largest = sorted(repositories, key=lambda each: (-each.memory_bytes, each.name))[:TILES_MAX]
    if not largest:
        return ()
    # The page shows proportions, and a tile too small to click would hide its repository.
    floor = max(1.0, sum(each.memory_bytes for each in largest) * SMALLEST_SHARE)
    boxes = treemap([max(floor, float(each.memory_bytes)) for each in largest], BOX)
    return tuple(_tile(each, box) for each, box in zip(largest, boxes, strict=True))


def _tile(repository: RepoStatus, box: TreemapBox) -> NodeTile:
    size, files = size_text(repository.memory_bytes), count_text(repository.documents, "file")
    return NodeTile(
        box=TreemapBox(*(round(side, 2) for side in box)),
        name=repository.name,
        label=_label(repository.name, box),
        detail=f"{_word(repository)}{role(repository.replica)}, {size}, {files}",
        state=_tile_color(repository),
        url=folder_url(repository.name),
    )


def _word(repository: RepoStatus) -> str:
    if repository.phase in (Phase.FETCHING, Phase.RECEIVING, Phase.INDEXING):
        return f"{repository.phase.value} {repository.progress:.0%}"
    return str(repository.phase.value)


def _tile_color(repository: RepoStatus) -> str:
    match repository.phase:
        case Phase.READY:
            return "ready" if repository.replica == 0 else "replica"
        case Phase.FAILED:
            return "failed"
        case _:
            return "warming"


def _label(name: str, box: TreemapBox) -> str:
    """The longest suffix of the name that fits: the last part identifies a repository best."""
    if box.height < LETTER_HEIGHT + 4:
        return ""
    letters = int((box.width - 10) / LETTER_WIDTH)
    last = name.rpartition("/")[2]
    for text in (name, last):
        if len(text) <= letters:
            return text
    return f"{last[: letters - 1]}…" if letters >= 4 else ""
