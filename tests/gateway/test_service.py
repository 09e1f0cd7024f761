"""The gateway over a small fleet: the result of one process, or one that names what is missing."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from argosy.base.clock import Random, seeded_random
from argosy.base.errors import Invalid, NotFound, Unavailable
from argosy.gateway import telemetry
from argosy.gateway.load_balancer import BreakerState
from argosy.gateway.ports import Overloaded, RepoState, Unserved
from argosy.ownership.events import Snapshot
from argosy.ownership.model import LeaseState, Unit
from argosy.search.fleet.model import FileRequest, FolderRequest, RepoSpec
from argosy.search.model import Form, Missing, MissingReason, Options, SearchResult
from argosy.search.query import parse
from argosy.search.query.tree import And, Boost, Query, RepoIds, RepoSet
from argosy.sim.loop import SimLoop
from tests.gateway.world import NAMES, World, comparable, in_virtual_time, oracle

T = TypeVar("T")


def tree(text: str) -> Query:
    return parse(text).query


def fleet(main: Callable[[World], Coroutine[Any, Any, T]], **options: Any) -> T:
    async def start(loop: SimLoop) -> T:
        return await main(World(loop, **options))

    return in_virtual_time(start)


def spread(world: World, nodes: int = 4) -> None:
    for i, name in enumerate(NAMES):
        world.give(f"n{i % nodes}", name)


QUERIES = ("needle", "launch file:src", "sym:launch", "-needle", "ret.*eed", "r:anvil needle", "r:acme -r:rocket", "")
OPTIONS = (
    Options(),
    Options(files_max=5),
    Options(files_max=0),
    Options(matches_max=4),
    Options(matches_max=9, files_max=8, context_lines=1),
    Options(matches_max=7, form=Form.LINES),
    Options(file_matches_max=1),
    Options(form=Form.COUNT),
    Options(use_bm25=True, files_max=3),
    Options(estimate_only=True),
)


@pytest.mark.parametrize("nodes", [1, 4])
@pytest.mark.parametrize("text", QUERIES)
def test_a_fleet_answers_what_one_process_would(text: str, nodes: int) -> None:
    async def main(world: World) -> None:
        spread(world, nodes)
        for options in OPTIONS:
            answer = await world.gateway.search(tree(text), options)
            assert answer.missing == ()
            assert comparable(answer) == comparable(oracle(NAMES, text, options)), options

    fleet(main)


def test_every_node_gets_one_request_with_the_repositories_that_can_match() -> None:
    async def main(world: World) -> None:
        spread(world)
        await world.gateway.search(tree("needle r:^acme/"), Options())
        requests = {address: [each.repositories for each in node.requests] for address, node in world.nodes.items()}
        assert requests == {"n0": [("acme/anvil",)], "n1": [("acme/rocket",)], "n2": [], "n3": []}

    fleet(main)


def test_only_restricts_to_repositories_by_name() -> None:
    async def main(world: World) -> None:
        spread(world)
        answer = await world.gateway.search(tree("needle"), Options(), only=["core", "dust", "unknown"])
        assert comparable(answer) == comparable(oracle(["core", "dust"], "needle"))

    fleet(main)


def test_sets_of_repositories_are_resolved_by_routing() -> None:
    async def main(world: World) -> None:
        spread(world)
        ids = frozenset({world.nodes["n0"].indexes["core"].repository.id})
        by_set = await world.gateway.search(And((tree("needle"), RepoSet(frozenset({"core"})))), Options())
        by_id = await world.gateway.search(And((tree("needle"), RepoIds(ids))), Options())
        expected = oracle(["core"], "needle")
        assert by_set.files == by_id.files == expected.files
        assert by_set.stats.indexes_excluded == len(NAMES) - 1

    fleet(main)


def test_a_query_without_a_text_form_is_answered() -> None:
    async def main(world: World) -> None:
        spread(world)
        answer = await world.gateway.search(Boost(tree("needle"), 2.0), Options())
        assert comparable(answer) == comparable(oracle(NAMES, Boost(tree("needle"), 2.0)))

    fleet(main)


def test_a_repository_without_a_serving_node_is_listed_with_the_reason() -> None:
    async def main(world: World) -> None:
        world.give("n1", "core")
        world.lease("dust", "n2", state=LeaseState.WARMING)
        world.catalog.put(RepoSpec("beta/anvil", "x", failures=1, last_error="repository not found"))
        answer = await world.gateway.search(tree("needle"), Options())
        missing = {each.repository: each for each in answer.missing}
        assert list(missing) == sorted(set(NAMES) - {"core"})
        assert missing["dust"].why is MissingReason.WARMING
        assert missing["acme/anvil"].why is MissingReason.UNOWNED
        assert "repository not found" in missing["beta/anvil"].detail
        assert not answer.is_complete
        assert comparable(answer) == comparable(oracle(["core"], "needle"))
        assert world.metrics.value(telemetry.MISSING, reason="unowned") == 4

    fleet(main)


def test_what_the_query_rules_out_is_not_missing() -> None:
    async def main(world: World) -> None:
        world.give("n1", "core")
        answer = await world.gateway.search(tree("needle r:core"), Options())
        assert answer.missing == ()
        assert answer.stats.indexes_excluded == len(NAMES) - 1

    fleet(main)


def test_if_every_repository_is_missing_the_error_has_a_retry_time() -> None:
    async def main(world: World) -> None:
        world.lease("dust", "n2", state=LeaseState.WARMING)
        with pytest.raises(Unserved, match="5 unowned, 1 warming") as raised:
            await world.gateway.search(tree("needle"), Options())
        assert raised.value.retry_after_s == 5.0
        assert world.metrics.value(telemetry.QUERIES, outcome="unserved") == 1

    fleet(main)


def test_an_empty_catalog_has_an_empty_answer() -> None:
    async def main(world: World) -> None:
        assert await world.gateway.search(tree("needle"), Options()) == SearchResult()

    fleet(main, names=())


def test_a_gateway_that_has_not_loaded_the_catalog_is_unavailable() -> None:
    async def main(world: World) -> None:
        world.catalog.version = 0
        assert not world.gateway.is_ready()
        with pytest.raises(Unavailable, match="catalog not loaded yet"):
            await world.gateway.search(tree("needle"), Options())

    fleet(main)


def test_a_repository_taken_out_of_the_catalog_vanishes_at_once() -> None:
    async def main(world: World) -> None:
        spread(world)
        await world.gateway.search(tree("needle"), Options())
        world.catalog.drop("core")
        left = [name for name in NAMES if name != "core"]
        assert comparable(await world.gateway.search(tree("needle"), Options())) == comparable(oracle(left, "needle"))
        with pytest.raises(NotFound):
            await world.gateway.file(FileRequest("core", "a"))

    fleet(main)


def test_a_repository_removed_during_its_search_is_neither_shown_nor_counted() -> None:
    async def main(world: World) -> None:
        spread(world)
        asking = asyncio.ensure_future(world.gateway.search(tree("needle"), Options()))
        await world.nodes["n0"].was_asked.wait()
        world.catalog.drop("core")
        left = [name for name in NAMES if name != "core"]
        assert comparable(await asking) == comparable(oracle(left, "needle"))

    fleet(main)


def test_a_node_that_refuses_is_replaced_by_a_replica() -> None:
    async def main(world: World) -> None:
        world.give("n1", *NAMES).is_down = True
        world.give("n2", *NAMES, replica=1)
        for _ in range(20):
            answer = await world.gateway.search(tree("needle"), Options())
            assert comparable(answer) == comparable(oracle(NAMES, "needle"))
            assert answer.is_complete
        assert len(world.nodes["n1"].requests) <= 3  # then its breaker opened

    fleet(main, cache_entries=0)


def test_a_node_of_another_version_is_missing_with_the_reason_and_the_others_answer() -> None:
    why = "node n1 is of another version: unsupported query version 2: this node reads version 1; upgrade this node"

    async def main(world: World) -> None:
        world.give("n1", *NAMES[:3]).failure = Unavailable(why)
        world.give("n2", *NAMES[3:])
        answer = await world.gateway.search(tree("needle"), Options())
        assert answer.missing == tuple(Missing(name, MissingReason.FAILED, why) for name in NAMES[:3])
        assert comparable(structs.replace(answer, missing=())) == comparable(oracle(NAMES[3:], "needle"))

    fleet(main, cache_entries=0)


def test_a_failing_nodes_circuit_opens_and_is_probed_later() -> None:
    async def main(world: World) -> None:
        world.give("n1", *NAMES[:3]).is_down = True
        world.give("n2", *NAMES[3:])
        for _ in range(5):
            answer = await world.gateway.search(tree("needle"), Options())
            assert [each.repository for each in answer.missing] == list(NAMES[:3])
        assert len(world.nodes["n1"].requests) == 3
        assert "circuit open" in answer.missing[0].detail
        assert world.metrics.value(telemetry.BREAKER_OPEN, address="n1") == 1
        world.nodes["n1"].is_down = False
        await world.clock.sleep(2.0)
        assert (await world.gateway.search(tree("needle"), Options())).is_complete
        assert world.metrics.value(telemetry.BREAKER_OPEN, address="n1") == 0

    fleet(main, cache_entries=0)


def test_a_node_that_lost_a_repository_is_replaced_by_one_that_has_it() -> None:
    async def main(world: World) -> None:
        world.give("n1", *NAMES)
        del world.nodes["n1"].indexes["core"]
        world.give("n2", "core", replica=1)
        for _ in range(8):
            answer = await world.gateway.search(tree("needle"), Options())
            assert comparable(answer) == comparable(oracle(NAMES, "needle"))

    fleet(main, cache_entries=0)


def test_a_repository_that_moves_during_its_search_is_requested_from_its_new_holder() -> None:
    async def main(world: World) -> None:
        spread(world)
        del world.nodes["n0"].indexes["core"]
        asking = asyncio.ensure_future(world.gateway.search(tree("needle"), Options()))
        await world.nodes["n0"].was_asked.wait()
        world.lease("core", "n9", epoch=2)
        world.node("n9").has("core")
        assert comparable(await asking) == comparable(oracle(NAMES, "needle"))

    fleet(main)


def test_a_replica_answers_before_a_late_node() -> None:
    async def main(world: World) -> None:
        world.give("n1", *NAMES).is_hanging = True
        world.give("n2", *NAMES, replica=1)
        for _ in range(10):
            began = world.clock.now()
            answer = await world.gateway.search(tree("needle"), Options())
            assert comparable(answer) == comparable(oracle(NAMES, "needle"))
            assert world.clock.now() - began < 1.0
        assert world.metrics.value(telemetry.HEDGES) >= 1
        assert world.nodes["n1"].cancelled == len(world.nodes["n1"].requests)

    fleet(main, cache_entries=0)


def test_an_answer_missing_at_the_deadline_has_timed_out() -> None:
    async def main(world: World) -> None:
        world.give("n1", *NAMES[:2]).is_hanging = True
        world.give("n2", *NAMES[2:])
        answer = await world.gateway.search(tree("needle"), Options(wall_time_s=3.0))
        assert [(each.repository, each.why) for each in answer.missing] == [
            (name, MissingReason.TIMED_OUT) for name in NAMES[:2]
        ]
        assert comparable(answer) == comparable(oracle(NAMES[2:], "needle"))
        assert world.clock.now() == pytest.approx(3.25)
        assert world.nodes["n1"].cancelled == 1

    fleet(main)


def test_a_query_may_not_take_longer_than_the_gateways_deadline() -> None:
    async def main(world: World) -> None:
        world.give("n1", *NAMES).is_hanging = True
        with pytest.raises(Unserved, match="6 timed out"):
            await world.gateway.search(tree("needle"), Options(wall_time_s=0))
        assert world.clock.now() == pytest.approx(2.25)
        assert world.nodes["n1"].requests[0].options.wall_time_s == 2.0

    fleet(main, deadline_s=2.0)


def test_a_node_with_hardly_any_time_does_not_count_as_failed() -> None:
    async def main(world: World) -> None:
        world.give("n1", *NAMES).delay_s = 0.5
        for _ in range(10):
            with pytest.raises(Unserved, match="timed out"):
                await world.gateway.search(tree("needle"), Options(wall_time_s=0.001))
        assert world.gateway.breakers() == {"n1": BreakerState.CLOSED}
        assert (await world.gateway.search(tree("needle"), Options())).is_complete

    fleet(main)


def test_a_busy_node_that_falls_silent_has_its_circuit_opened_before_deadlines_pass() -> None:
    async def main(world: World) -> None:
        world.give("n1", "core").is_hanging = True
        world.give("n2", *[name for name in NAMES if name != "core"])
        waiting = [asyncio.ensure_future(world.gateway.search(tree(f"needle {i}"), Options())) for i in range(8)]
        await world.clock.sleep(5.5)
        began = world.clock.now()
        answer = await world.gateway.search(tree("needle"), Options())
        assert [each.repository for each in answer.missing] == ["core"]
        assert world.clock.now() - began < 0.1
        assert len(await asyncio.gather(*waiting)) == 8

    fleet(main)


def test_cancelling_the_caller_cancels_all_requests() -> None:
    async def main(world: World) -> None:
        for i, name in enumerate(NAMES):
            world.give(f"n{i}", name).is_hanging = True
        asking = asyncio.ensure_future(world.gateway.search(tree("needle"), Options()))
        for node in world.nodes.values():
            await node.was_asked.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert [node.cancelled for node in world.nodes.values()] == [1] * len(NAMES)
        assert world.metrics.value(telemetry.IN_FLIGHT) == 0

    fleet(main)


def test_cancelled_queries_do_not_count_as_in_flight() -> None:
    async def main(world: World) -> None:
        node = world.give("n1", *NAMES)
        node.is_hanging = True
        asking = [asyncio.ensure_future(world.gateway.search(tree(f"needle {i}"), Options())) for i in range(20)]
        await world.clock.sleep(0.2)  # no request waits longer
        for each in asking:
            each.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        assert node.cancelled == 20
        node.is_hanging = False
        await world.clock.sleep(60.0)
        assert (await world.gateway.search(tree("needle"), Options())).is_complete
        assert world.gateway.breakers() == {"n1": BreakerState.CLOSED}
        world.view.apply(Snapshot(), world.clock.now())
        assert (await world.gateway.search(tree("r:nothing"), Options())).is_complete
        assert world.gateway.breakers() == {}

    fleet(main)


def test_concurrent_equal_queries_are_sent_to_nodes_once() -> None:
    async def main(world: World) -> None:
        spread(world)
        first, *others = [asyncio.ensure_future(world.gateway.search(tree("needle"), Options())) for _ in range(5)]
        await world.nodes["n0"].was_asked.wait()
        first.cancel()
        answers = await asyncio.gather(*others)
        assert all(answer == answers[0] for answer in answers)
        assert len(world.nodes["n0"].requests) == 1
        assert world.metrics.value(telemetry.CACHE, source="shared") == 4

    fleet(main)


def test_a_result_is_cached_until_something_changes_or_it_expires() -> None:
    async def main(world: World) -> None:
        spread(world)

        async def count_requests() -> int:
            await world.gateway.search(tree("needle"), Options())
            return len(world.nodes["n0"].requests)

        assert [await count_requests(), await count_requests()] == [1, 1]
        world.lease("core", "n0", epoch=2)
        assert [await count_requests(), await count_requests()] == [2, 2]
        world.catalog.put(RepoSpec("core", "x", last_commit="abc"))
        assert [await count_requests(), await count_requests()] == [3, 3]
        await world.clock.sleep(2.1)
        assert await count_requests() == 4

    fleet(main)


def test_queries_above_the_limit_are_rejected() -> None:
    async def main(world: World) -> None:
        world.give("n1", *NAMES).is_hanging = True
        one = asyncio.ensure_future(world.gateway.search(tree("needle"), Options(wall_time_s=1)))
        await world.nodes["n1"].was_asked.wait()
        with pytest.raises(Overloaded, match="queries_max"):
            await world.gateway.search(tree("thread"), Options())
        with pytest.raises(Unserved):
            await one
        assert world.metrics.value(telemetry.QUERIES, outcome="overloaded") == 1

    fleet(main, queries_max=1)


def test_an_invalid_query_is_rejected_and_no_node_counts_as_failed() -> None:
    async def main(world: World) -> None:
        spread(world)

        async def refuse(requests: object) -> SearchResult:
            raise Invalid("too complex")

        for node in world.nodes.values():
            node.search = refuse  # type: ignore[method-assign]
        for _ in range(5):
            with pytest.raises(Invalid, match="too complex"):
                await world.gateway.search(tree("needle"), Options())

    fleet(main)


# -- streaming ------------------------------------------------------------------------------------------------------


def test_first_results_come_before_the_slowest_node() -> None:
    async def main(world: World) -> None:
        spread(world, 3)
        world.nodes["n2"].delay_s = 0.4
        came = [(world.clock.now(), part) async for part in world.gateway.stream(tree("needle"), Options())]
        *parts, (_, whole) = came
        assert [at for at, _ in parts] == pytest.approx([0.001, 0.001])
        assert {file.repository for _, part in parts for file in part.files} == {
            name for i, name in enumerate(NAMES) if i % 3 != 2
        }
        assert comparable(whole) == comparable(oracle(NAMES, "needle"))

    fleet(main)


def test_a_stream_has_each_repository_once_and_then_the_whole_result() -> None:
    async def main(world: World) -> None:
        world.give("n1", *NAMES).delay_s = 0.6  # overtaken in part, answers in the end
        world.give("n2", *NAMES[:3], replica=1)
        world.give("n3", *NAMES[:1], replica=2).delay_s = 3.0
        parts = [part async for part in world.gateway.stream(tree("needle"), Options(files_max=0))]
        shown = [(file.repository, file.path) for part in parts[:-1] for file in part.files]
        assert len(shown) == len(set(shown))
        assert comparable(parts[-1]) == comparable(oracle(NAMES, "needle", Options(files_max=0)))

    fleet(main, cache_entries=0)


def test_a_stream_that_is_closed_early_leaves_no_request_behind() -> None:
    async def main(world: World) -> None:
        spread(world, 2)
        world.nodes["n1"].is_hanging = True
        stream = world.gateway.stream(tree("needle"), Options())
        part = await anext(stream)
        assert {file.repository for file in part.files} == set(NAMES[::2])
        await stream.aclose()  # type: ignore[attr-defined]
        assert world.nodes["n1"].cancelled == 1
        assert world.metrics.value(telemetry.IN_FLIGHT) == 0

    fleet(main)


# -- lists, files, the fleet ----------------------------------------------------------------------------------------


def test_a_list_is_gathered_from_all_nodes_by_name() -> None:
    async def main(world: World) -> None:
        spread(world)
        world.nodes["n3"].is_down = True
        listing = await world.gateway.list(tree("r:anvil|core|tunnel type:repo"))
        assert [entry.repository.name for entry in listing.entries] == ["acme/anvil", "beta/anvil", "core"]
        assert [each.repository for each in listing.missing] == ["beta/tunnel"]
        with pytest.raises(Unserved):
            await world.gateway.repositories(tree("r:tunnel"))
        assert [each.name for each in await world.gateway.repositories(tree("r:core"))] == ["core"]

    fleet(main)


def test_a_file_is_read_from_any_holder() -> None:
    async def main(world: World) -> None:
        world.give("n1", "core").is_down = True
        world.give("n2", "core", replica=1)
        for _ in range(4):
            assert (await world.gateway.file(FileRequest("core", "a.py"))).path == "a.py"
        with pytest.raises(NotFound, match="no such file"):
            await world.gateway.file(FileRequest("core", "none"))
        assert (await world.gateway.folder(FolderRequest("core"))).names == ("src/",)
        with pytest.raises(Unserved, match="no node holds a lease"):
            await world.gateway.file(FileRequest("dust", "a.py"))

    fleet(main)


def test_the_fleet_status_includes_unreachable_nodes() -> None:
    async def main(world: World) -> None:
        world.give("n1", "core", "dust")
        world.give("n2", "acme/anvil").is_hanging = True
        world.lease("acme/rocket", "n1", state=LeaseState.WARMING)
        world.catalog.put(RepoSpec("beta/anvil", "x", failures=2, last_error="no such branch"))
        status = await world.gateway.status()
        assert world.clock.now() == pytest.approx(1.0)
        assert [(node.node, node.leases, node.problem) for node in status.nodes] == [
            ("n1", 3, ""),
            ("n2", 1, "timed out after 1 s"),
        ]
        states = {repo.name: repo.state for repo in status.repositories}
        assert states["core"] is RepoState.READY
        assert states["acme/rocket"] is RepoState.WARMING
        assert states["beta/anvil"] is RepoState.FAILED
        assert states["beta/tunnel"] is RepoState.UNOWNED
        assert status.desired_nodes >= 2
        assert await world.gateway.status() is status
        await world.clock.sleep(1.0)
        assert await world.gateway.status() is not status

    fleet(main)


# -- whatever happens -----------------------------------------------------------------------------------------------


@st.composite
def layouts(draw: st.DrawFn) -> dict[str, Any]:
    nodes = [f"n{i}" for i in range(draw(st.integers(1, 4)))]
    holders = {name: draw(st.lists(st.sampled_from(nodes), unique=True, max_size=3)) for name in NAMES}
    states = {node: draw(st.sampled_from(["up", "up", "up", "down", "hanging"])) for node in nodes}
    delays = {node: draw(st.sampled_from([0.001, 0.01, 0.3, 0.8])) for node in nodes}
    lost = draw(st.sets(st.tuples(st.sampled_from(nodes), st.sampled_from(NAMES)), max_size=4))
    return {"holders": holders, "states": states, "delays": delays, "lost": lost}


@given(
    layout=layouts(),
    text=st.sampled_from(QUERIES),
    options=st.sampled_from(OPTIONS),
    seed=st.integers(0, 1000),
    streams=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_results_equal_the_oracle_for_all_but_the_missing_and_only_unavailable_ones_are_missing(
    layout: dict[str, Any], text: str, options: Options, seed: int, streams: bool
) -> None:
    async def main(world: World) -> None:
        for name, nodes in layout["holders"].items():
            for replica, node in enumerate(nodes):
                world.give(node, name, replica=replica)
        for node, state in layout["states"].items():
            world.at(node).is_down, world.at(node).is_hanging = state == "down", state == "hanging"
            world.at(node).delay_s = layout["delays"][node]
        for node, name in layout["lost"]:
            world.at(node).indexes.pop(name, None)
        targets = _expected(text)
        available = {
            name
            for name in targets
            for node in layout["holders"][name]
            if layout["states"][node] == "up" and (node, name) not in layout["lost"]
        }
        answer, reported = await _search(world, text, options, streams)
        missing = {each.repository for each in reported}
        assert missing == targets - available
        if answer is None:
            assert missing == targets
        else:
            assert comparable(answer) == comparable(oracle(set(NAMES) - missing, text, options))

    fleet(main, seed=seed, hedge_share=1.0)


def _expected(text: str) -> set[str]:
    if "r:acme" in text:
        return {"acme/anvil"}
    return {name for name in NAMES if "anvil" in name} if "r:anvil" in text else set(NAMES)


async def _search(
    world: World, text: str, options: Options, streams: bool
) -> tuple[SearchResult | None, tuple[Missing, ...]]:
    """The answer, if there is one, and what is missing."""
    try:
        parts = (
            [part async for part in world.gateway.stream(tree(text), options)]
            if streams
            else [await world.gateway.search(tree(text), options)]
        )
    except Unserved as why:
        return None, why.missing
    *early, whole = parts
    assert all(part.missing == () for part in early)
    missing = {each.repository for each in whole.missing}
    assert missing.isdisjoint(file.repository for part in early for file in part.files)
    return whole, whole.missing


@pytest.mark.parametrize("seed", range(4))
def test_no_result_is_wrong_under_any_change_of_nodes_and_leases(seed: int) -> None:
    async def main(world: World) -> None:
        random = seeded_random(seed)
        nodes = [world.give(address, *NAMES, replica=i) for i, address in enumerate(("n0", "n1", "n2"))]
        disturbing = asyncio.ensure_future(_disturb(world, random, rounds=150))
        seen = {"complete": 0, "partial": 0, "unserved": 0}
        while not disturbing.done():
            text, options = random.choice(QUERIES[:4]), random.choice(OPTIONS[:3])
            answer, missing = await _search(world, text, structs.replace(options, wall_time_s=0.5), streams=False)
            await world.clock.sleep(random.uniform(0.0, 0.1))
            if answer is None:
                seen["unserved"] += 1
                continue
            seen["partial" if missing else "complete"] += 1
            left = set(NAMES) - {each.repository for each in missing}
            assert comparable(answer) == comparable(oracle(left, text, options))
        assert seen["complete"] > 0
        assert seen["partial"] > 0
        await disturbing
        for node in nodes:
            node.is_down = node.is_hanging = False
        await world.clock.sleep(40.0)
        for i, name in enumerate(NAMES):
            world.give(f"n{i % 3}", name)
        assert (await world.gateway.search(tree("needle"), Options())).is_complete

    fleet(main, seed=seed)


async def _disturb(world: World, random: Random, rounds: int) -> None:
    """Nodes fail, hang, slow down and recover; leases come, go and turn."""
    for epoch in range(2, rounds):
        await world.clock.sleep(random.uniform(0.0, 0.2))
        node = random.choice(sorted(world.nodes))
        name, replica = random.choice(NAMES), random.randrange(0, 3)
        match random.randrange(0, 7):
            case 0:
                world.nodes[node].is_down = not world.nodes[node].is_down
            case 1:
                world.nodes[node].is_hanging = not world.nodes[node].is_hanging
            case 2:
                world.nodes[node].delay_s = random.choice((0.001, 0.02, 0.3))
            case 3:
                world.nodes[node].indexes.pop(name, None)
            case 4:
                if (known := world.view.leases.get(Unit(name, replica))) is not None:
                    world.unlease(name, replica, known.epoch)
            case 5:
                world.nodes[node].has(name)
                world.lease(name, node, replica, epoch=epoch)
            case _:
                world.lease(name, node, replica, random.choice(tuple(LeaseState)), epoch)
