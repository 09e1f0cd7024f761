"""The fleet's page: cards, tiles, auctions."""

from argosy.gateway.ports import AuctionView, FleetStatus, NodeView, RepoState, RepoView
from argosy.gateway.ui.fleet import AUCTIONS_MAX, TILES_MAX, fleet_page
from argosy.search.fleet.model import NodeStatus, Phase, RepoSpec, RepoStatus

MIB = 1 << 20


def node(name: str, *repositories: RepoStatus, is_draining: bool = False, held: int = 0) -> NodeView:
    status = NodeStatus(name, "a:1", "1.0", 50.0, is_draining, 100 * MIB, held, 10 * MIB, repositories)
    return NodeView(name, "a:1", True, len(repositories), status)


def test_a_node_shows_its_memory_and_state() -> None:
    page = fleet_page(FleetStatus(110.0, (node("n2", held=25 * MIB), node("n1", is_draining=True))))
    draining, ready = page.nodes
    assert (draining.name, draining.state) == ("n1", "draining")
    assert (ready.state, ready.share, ready.up) == ("ready", 25.0, "1 min")
    assert (ready.held, ready.budget) == ("25.0 MiB", "100 MiB")
    assert (page.held, page.budget, page.live_nodes) == ("25.0 MiB", "200 MiB", 2)


def test_an_unreachable_node_has_the_reason() -> None:
    [card] = fleet_page(FleetStatus(1.0, (NodeView("n", "a", False, 3, None, "token=hidden refused"),))).nodes
    assert (card.state, card.leases, card.tiles) == ("silent", 3, ())
    assert "hidden" not in card.problem


def test_tiles_are_sized_by_memory_and_coloured_by_state() -> None:
    large = RepoStatus("host/large", Phase.READY, memory_bytes=3 * MIB, documents=7)
    small = RepoStatus("host/small", Phase.INDEXING, progress=0.5, memory_bytes=MIB)
    bad = RepoStatus("host/bad", Phase.FAILED)
    replica = RepoStatus("host/copy", Phase.READY, replica=1, memory_bytes=MIB)
    [card] = fleet_page(FleetStatus(1.0, (node("n", bad, small, replica, large),))).nodes
    tiles = {tile.name: tile for tile in card.tiles}
    assert {name: tile.state for name, tile in tiles.items()} == {
        "host/large": "ready",
        "host/copy": "replica",
        "host/small": "warming",
        "host/bad": "failed",
    }
    area = {name: tile.box.width * tile.box.height for name, tile in tiles.items()}
    assert area["host/large"] > 2.5 * area["host/small"]
    assert area["host/bad"] > 0
    assert tiles["host/large"].label == "host/large"
    assert tiles["host/small"].detail == "indexing 50%, 1.0 MiB, 0 files"


def test_a_treemap_is_bounded_and_reports_what_it_omits() -> None:
    many = [RepoStatus(f"r{number}", Phase.READY, memory_bytes=number) for number in range(TILES_MAX + 9)]
    [card] = fleet_page(FleetStatus(1.0, (node("n", *many),))).nodes
    assert len(card.tiles) == TILES_MAX
    assert card.omitted == 9


def test_auctions_that_close_first_come_first() -> None:
    auctions = tuple(AuctionView(f"r{number}", 0, 1, 3, float(-number)) for number in range(AUCTIONS_MAX + 2))
    page = fleet_page(FleetStatus(1.0, auctions=auctions))
    assert page.auctions[0].repository == f"r{AUCTIONS_MAX + 1}"
    assert page.auctions[0].closes_in_s == 0.0
    assert page.more_auctions == 2


def test_repositories_without_a_holder_are_listed_with_their_reason() -> None:
    failed = RepoView("a", RepoState.FAILED, RepoSpec("a", "x"), reason="gone")
    ready = RepoView("b", RepoState.READY, RepoSpec("b", "x"))
    assert fleet_page(FleetStatus(1.0, repositories=(failed, ready))).waiting == (("a", "failed", "gone"),)
