"""Routes: from leases and catalog to the nodes that serve each repository."""

from argosy.gateway.route import Router, RouteTable, TargetGroup
from argosy.ownership.events import LeaseChanged, LeaseGone, MemberChanged, Snapshot
from argosy.ownership.model import SUCCESSOR, Lease, LeaseState, Member, Unit
from argosy.ownership.view import FleetView
from argosy.search.fleet.model import RepoSpec
from argosy.search.model import MissingReason
from argosy.search.query import parse
from tests.gateway.world import FakeCatalog


def lease(name: str, address: str, replica: int = 0, state: LeaseState = LeaseState.READY) -> Lease:
    return Lease(Unit(name, replica), f"node-{address}", address, "token", 1, state)


def routes(*leases: Lease, names: str = "abc") -> RouteTable:
    return RouteTable((1, 1), leases, {name: RepoSpec(name, "url") for name in names})


def everything(made: RouteTable) -> tuple[TargetGroup, ...]:
    return made.targets(parse("needle").query).groups


def test_repositories_with_the_same_holders_are_one_group() -> None:
    made = routes(
        lease("a", "x"), lease("a", "y", 1), lease("b", "y"), lease("b", "x", 1), lease("c", "x"), lease("d", "x")
    )
    assert everything(made) == (TargetGroup(("x",), ("c",)), TargetGroup(("x", "y"), ("a", "b")))
    assert made.addresses() == {"x", "y"}


def test_the_primary_comes_first() -> None:
    assert routes(lease("a", "y", 1), lease("a", "x")).holders["a"] == ("x", "y")


def test_a_repository_that_is_not_in_the_catalog_has_no_route() -> None:
    made = routes(lease("a", "x"), lease("z", "x"), names="a")
    assert everything(made) == (TargetGroup(("x",), ("a",)),)
    assert "z" not in made.holders


def test_draining_nodes_still_serve_and_warming_ones_do_not() -> None:
    made = routes(
        lease("a", "x", state=LeaseState.DRAINING),
        lease("b", "x", state=LeaseState.WARMING),
        lease("b", "y", 1),
        lease("c", "x", state=LeaseState.WARMING),
    )
    assert everything(made) == (TargetGroup(("x",), ("a",)), TargetGroup(("y",), ("b",)))
    [missing] = made.targets(parse("needle").query).missing
    assert (missing.repository, missing.why, missing.detail) == (
        "c",
        MissingReason.WARMING,
        "node-x is indexing it",
    )


def test_a_successor_serves_only_after_it_has_taken_over() -> None:
    made = routes(lease("a", "y", SUCCESSOR), names="a")
    [missing] = made.targets_of("a").missing
    assert missing.why is MissingReason.UNOWNED


def test_a_failed_repository_has_the_reason() -> None:
    made = RouteTable((1, 1), [], {"a": RepoSpec("a", "url", failures=2, last_error="no such host")})
    [missing] = made.targets(parse("needle").query).missing
    assert missing.detail == "no node holds a lease; last attempt failed: no such host"


def test_a_query_that_names_repositories_is_routed_to_those_alone() -> None:
    made = routes(lease("a", "x"), lease("b", "x"))
    targets = made.targets(parse("needle r:a|c").query)
    assert targets.groups == (TargetGroup(("x",), ("a",)),)
    assert [each.repository for each in targets.missing] == ["c"]
    assert targets.excluded == 1
    restricted = made.targets(parse("needle -r:a").query, only={"a", "b", "unknown"})
    assert restricted.groups == (TargetGroup(("x",), ("b",)),)
    assert (restricted.missing, restricted.excluded) == ((), 1)


def test_routes_are_rebuilt_only_when_leases_or_the_catalog_change() -> None:
    view, catalog = FleetView(), FakeCatalog(["a"])
    view.apply(Snapshot((lease("a", "x"),)), 0.0)
    router = Router(view, catalog)
    first = router.routes()
    view.apply(MemberChanged(Member("n", "x", held_bytes=7)), 0.0)
    assert router.routes() is first
    view.apply(LeaseChanged(lease("a", "y")), 0.0)
    second = router.routes()
    assert second.holders == {"a": ("y",)}
    view.apply(LeaseGone(Unit("a"), 9), 0.0)  # of another epoch
    assert router.routes() is second
    view.apply(LeaseGone(Unit("a"), 1), 0.0)
    assert router.routes().holders == {}
    catalog.put(RepoSpec("b", "url"))
    assert [each.repository for each in router.routes().targets(parse("x").query).missing] == ["a", "b"]
