"""A node returns results only for repositories it holds before and after the search, and names the others."""

import asyncio
from collections.abc import Callable, Collection

import pytest
from msgspec.structs import replace

from argosy.base.errors import Invalid, NotFound, NotOwner, Unavailable
from argosy.search.fleet.local_node import SEARCH_S_MIN
from argosy.search.fleet.model import FileRequest, FolderRequest, Phase, RepoStatus
from argosy.search.fleet.protocol import WALL_TIME_S_MAX
from argosy.search.fleet.search_node import QUIESCE_S
from argosy.search.index.index import Index
from argosy.search.index.sections import verify
from argosy.search.index.wire import dump, load
from argosy.search.index_set import IndexSet
from argosy.search.model import LimitHit, Missing, MissingReason, Options, SearchResult
from argosy.search.query.tree import Query, Regexp
from argosy.search.settings import SearchSettings
from tests.search.fleet.node_fixture import (
    CODE,
    NAMES,
    InterceptedIndexSet,
    NodeFixture,
    odd,
    search_request,
    small,
    without_time,
)
from tests.search.match.search_calls import tree_of
from tests.search.test_index_set import SetClock


@pytest.fixture(scope="module")
def indexes() -> list[Index]:
    return [small("alpha"), small("beta", rank=9), small("gamma", rank=5)]


def changing_fixture(indexes: list[Index], then: Callable[[NodeFixture], object], **more: object) -> NodeFixture:
    """A node fixture that changes while a request is in flight."""
    return NodeFixture(
        *indexes,
        wrap=lambda fixture: InterceptedIndexSet(fixture.index_set, lambda: then(fixture)),
        **more,  # type: ignore[arg-type]
    )


async def search_alone(indexes: list[Index], options: Options) -> SearchResult:
    """The result of an index set with these indexes alone."""
    index_set = IndexSet(indexes, threads=1)
    answer = await index_set.search(tree_of("needle"), options)
    index_set.close()
    return answer


# -- search ---------------------------------------------------------------------------------------------------------


async def test_a_search_returns_the_result_of_the_index_set_with_repository_metadata(indexes: list[Index]) -> None:
    fixture = NodeFixture(*indexes)
    options = Options(files_max=25)
    answer = await fixture.node.search(search_request(options=options))
    expected = await search_alone(indexes, options)
    assert without_time(replace(answer, repositories={})) == without_time(expected)
    assert answer.repositories == {name: fixture.index_set.get(name).repository for name in ("beta", "gamma")}


async def test_only_the_requested_repositories_are_searched(indexes: list[Index]) -> None:
    answer = await NodeFixture(*indexes).node.search(search_request("needle", "gamma", "gamma"))
    assert {file.repository for file in answer.files} == {"gamma"}
    assert (answer.stats.indexes_searched, answer.is_complete) == (1, True)


async def test_a_repository_that_cannot_be_searched_is_missing_with_a_reason(indexes: list[Index]) -> None:
    fixture = NodeFixture(*indexes)
    fixture.leases |= {"line", "fetch", "unknown", "bad"}
    fixture.host.set_status(RepoStatus("line", Phase.WAITING))
    fixture.host.set_status(RepoStatus("fetch", Phase.FETCHING, progress=0.42))
    fixture.host.set_status(RepoStatus("bad", Phase.FAILED, reason="no such branch"))
    answer = await fixture.node.search(
        search_request("needle", "line", "elsewhere", "unknown", "fetch", "bad", "alpha")
    )
    assert {file.repository for file in answer.files} == {"alpha"}
    assert answer.missing == (
        Missing("bad", MissingReason.FAILED, "no such branch"),
        Missing("elsewhere", MissingReason.UNOWNED, "node n1 does not hold it"),
        Missing("fetch", MissingReason.WARMING, "fetching, 42%"),
        Missing("line", MissingReason.WARMING, "waiting"),
        Missing("unknown", MissingReason.WARMING, "waiting"),
    )


async def test_an_index_without_a_lease_is_not_searched(indexes: list[Index]) -> None:
    fixture = NodeFixture(*indexes)
    fixture.leases.clear()
    answer = await fixture.node.search(search_request())
    assert (answer.files, answer.stats.indexes_searched) == ((), 0)
    assert [(each.repository, each.why) for each in answer.missing] == [(name, MissingReason.UNOWNED) for name in NAMES]
    assert fixture.host.recorded == []


async def test_a_lease_lost_in_mid_search_takes_its_files_with_it(indexes: list[Index]) -> None:
    """The best files were beta's: the result is the one without beta."""
    fixture = changing_fixture(indexes, lambda fixture: fixture.leases.discard("beta"))
    options = Options(files_max=10)
    answer = await fixture.node.search(search_request(options=options))
    assert [(each.repository, each.why) for each in answer.missing] == [("beta", MissingReason.UNOWNED)]
    expected = await search_alone([indexes[0], indexes[2]], options)
    assert without_time(replace(answer, missing=(), repositories={})) == without_time(expected)
    assert set(answer.repositories) == {"gamma"}
    assert fixture.host.recorded == ["gamma"]


async def test_leases_lost_one_after_the_other_leave_an_empty_answer(indexes: list[Index]) -> None:
    fixture = changing_fixture(indexes, lambda fixture: fixture.leases.pop())
    answer = await fixture.node.search(search_request())
    assert [each.repository for each in answer.missing] == list(NAMES)
    assert without_time(replace(answer, missing=())) == SearchResult()


async def test_an_index_dropped_in_mid_search_makes_its_repository_missing(indexes: list[Index]) -> None:
    dropped: list[str] = []

    def drop(fixture: NodeFixture) -> None:
        if not dropped:
            dropped.append("gamma")
            fixture.index_set.drop("gamma")
            fixture.host.set_status(RepoStatus("gamma", Phase.INDEXING, progress=0.1))

    answer = await changing_fixture(indexes, drop).node.search(search_request(options=Options(files_max=0)))
    assert {file.repository for file in answer.files} == {"alpha", "beta"}
    assert answer.missing == (Missing("gamma", MissingReason.WARMING, "indexing, 10%"),)


async def test_an_index_replaced_in_mid_search_changes_nothing(indexes: list[Index]) -> None:
    fixture = changing_fixture(indexes, lambda fixture: fixture.index_set.put(small("gamma", files=1)))
    answer = await fixture.node.search(search_request("needle", "gamma"))
    assert (answer.stats.files, answer.is_complete) == (20, True)


async def test_a_restarted_search_has_only_the_remaining_time(indexes: list[Index]) -> None:
    clock, index_sets = SetClock(), list[InterceptedIndexSet]()

    def lose(fixture: NodeFixture) -> None:
        if len(fixture.leases) > 1:
            fixture.leases.pop()
            clock.now_s += 8.0

    def wrap(fixture: NodeFixture) -> InterceptedIndexSet:
        index_sets.append(InterceptedIndexSet(fixture.index_set, lambda: lose(fixture)))
        return index_sets[0]

    await NodeFixture(*indexes, wrap=wrap, clock=clock).node.search(search_request(options=Options(wall_time_s=10.0)))
    assert [options.wall_time_s for options in index_sets[0].options] == [10.0, 2.0, SEARCH_S_MIN]


async def test_files_and_time_are_bounded_for_any_request(indexes: list[Index]) -> None:
    index_sets = list[InterceptedIndexSet]()

    def wrap(fixture: NodeFixture) -> InterceptedIndexSet:
        index_sets.append(InterceptedIndexSet(fixture.index_set, lambda: None))
        return index_sets[0]

    fixture = NodeFixture(*indexes, wrap=wrap, settings=SearchSettings(result_files_max=7))
    for files_max in (0, 8, 1_000_000):
        answer = await fixture.node.search(search_request(options=Options(files_max=files_max, wall_time_s=0.0)))
        assert (len(answer.files), answer.limits_hit) == (7, (LimitHit.FILES_SHOWN,))
    assert len((await fixture.node.search(search_request(options=Options(files_max=3)))).files) == 3
    assert index_sets[0].options[0].wall_time_s == WALL_TIME_S_MAX


async def test_an_invalid_query_is_rejected(indexes: list[Index]) -> None:
    with pytest.raises(Invalid, match="missing \\)"):
        await NodeFixture(*indexes).node.search(search_request(Regexp("(needle")))


async def test_searched_repositories_are_recorded(indexes: list[Index]) -> None:
    fixture = NodeFixture(*indexes)
    await fixture.node.search(search_request("file:beta1 or file:gamma2"))
    await fixture.node.search(search_request("nowhere"))
    assert sorted(fixture.host.recorded) == ["beta", "gamma"]


# -- list -----------------------------------------------------------------------------------------------------------


async def test_a_list_has_the_repositories_with_a_match_and_their_numbers(indexes: list[Index]) -> None:
    fixture = NodeFixture(*indexes)
    listing = await fixture.node.list(search_request("needle -r:beta", *NAMES, "elsewhere"))
    assert [entry.repository for entry in listing.entries] == [indexes[0].repository, indexes[2].repository]
    first = listing.entries[0]
    assert (first.documents, first.indexed_at, first.languages, first.has_symbols) == (20, 5.0, {"Python": 20}, True)
    assert [(each.repository, each.why) for each in listing.missing] == [("elsewhere", MissingReason.UNOWNED)]


async def test_a_lease_lost_in_mid_list_makes_its_repository_missing(indexes: list[Index]) -> None:
    listing = await changing_fixture(indexes, lambda fixture: fixture.leases.discard("beta")).node.list(
        search_request('""')
    )
    assert [entry.repository.name for entry in listing.entries] == ["alpha", "gamma"]
    assert [(each.repository, each.why) for each in listing.missing] == [("beta", MissingReason.UNOWNED)]


async def test_a_list_without_held_repositories_is_empty(indexes: list[Index]) -> None:
    listing = await NodeFixture(*indexes).node.list(search_request('""', "elsewhere"))
    assert (listing.entries, len(listing.missing)) == ((), 1)


# -- one repository -------------------------------------------------------------------------------------------------


async def test_a_file_and_a_folder_are_returned_and_recorded() -> None:
    index = odd()
    name, fixture = index.repository.name, NodeFixture(index)
    assert (await fixture.node.file(FileRequest(name, "bad\udcff/name\udcfe.py"))).content == CODE
    assert (await fixture.node.folder(FolderRequest(name, "lib"))).names == ("deep/", "logo.png")
    assert fixture.host.recorded == [name, name]
    with pytest.raises(NotFound, match=r"'nope' not found on branch"):
        await fixture.node.file(FileRequest(name, "nope"))


async def test_a_repository_of_another_node_is_refused_with_a_hint(indexes: list[Index]) -> None:
    node = NodeFixture(*indexes).node
    with pytest.raises(NotOwner, match="n1 does not hold 'elsewhere'") as refused:
        await node.file(FileRequest("elsewhere", "a"))
    assert refused.value.hint == "n2:6070"
    with pytest.raises(NotOwner) as refused:
        await node.folder(FolderRequest("nobody's"))
    assert refused.value.hint is None
    with pytest.raises(NotOwner):
        await anext(node.index("elsewhere"))


async def test_a_repository_that_is_not_ready_is_unavailable_with_a_reason(indexes: list[Index]) -> None:
    fixture = NodeFixture(*indexes)
    fixture.leases.add("new")
    fixture.host.set_status(RepoStatus("new", Phase.RECEIVING, progress=0.5))
    with pytest.raises(Unavailable, match=r"'new': index not ready \(warming: receiving, 50%\)"):
        await fixture.node.file(FileRequest("new", "a"))


async def test_a_lease_lost_while_a_file_is_read_is_reported(indexes: list[Index]) -> None:
    fixture = NodeFixture(*indexes)
    call = asyncio.ensure_future(fixture.node.file(FileRequest("alpha", "src/alpha1.py")))
    await asyncio.sleep(0)
    fixture.leases.discard("alpha")
    with pytest.raises(NotOwner):
        await call
    assert fixture.host.recorded == []


async def test_an_index_is_streamed_as_it_is(indexes: list[Index]) -> None:
    fixture = NodeFixture(*indexes)
    chunks = [chunk async for chunk in fixture.node.index("beta")]
    assert b"".join(chunks) == b"".join(dump(indexes[1]))
    assert verify(load(chunks)) == []


# -- itself ---------------------------------------------------------------------------------------------------------


async def test_the_status_is_that_of_the_node(indexes: list[Index]) -> None:
    fixture = NodeFixture(*indexes, clock=SetClock())
    status = await fixture.node.status()
    assert (status.node, status.address, status.started_at, status.is_draining) == ("n1", "n1:6070", 0.0, False)
    assert (status.budget_bytes, status.held_bytes, status.free_bytes) == (1000, 600, 300)
    assert status.repositories == fixture.host.statuses()


async def test_dropping_waits_for_requests_in_flight(indexes: list[Index]) -> None:
    fixture = NodeFixture(*indexes)
    stream = fixture.node.index("beta")
    await anext(stream)
    waiting = asyncio.ensure_future(fixture.quiesce("beta", within_s=60.0))
    assert await fixture.quiesce("alpha")
    assert not waiting.done()
    async for _ in stream:
        pass
    assert await waiting


async def test_quiesce_wakes_when_the_last_request_ends_and_does_not_poll(indexes: list[Index]) -> None:
    clock = StoppedClock()
    fixture = NodeFixture(*indexes, clock=clock)
    stream = fixture.node.index("beta")
    await anext(stream)
    waiting = asyncio.ensure_future(fixture.quiesce("beta", within_s=60.0))
    async for _ in stream:
        assert not waiting.done()
    async with asyncio.timeout(10.0):
        assert await waiting
    assert clock.sleeps == [60.0], "one timer, for the longest wait"


async def test_dropping_waits_for_a_bounded_time(indexes: list[Index]) -> None:
    clock = SetClock()
    fixture = NodeFixture(*indexes, clock=clock)
    stream = fixture.node.index("beta")
    await anext(stream)
    assert not await fixture.quiesce("beta")
    assert clock.now_s >= QUIESCE_S
    await stream.aclose()  # type: ignore[attr-defined]
    assert await fixture.quiesce("beta")


class StoppedClock(SetClock):
    """A clock on which no time passes."""

    def __init__(self) -> None:
        super().__init__()
        self.sleeps: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        await asyncio.Event().wait()


class GatedIndexSet(InterceptedIndexSet):
    """An index set that answers when the gate opens."""

    def __init__(self, index_set: IndexSet, gate: asyncio.Event) -> None:
        super().__init__(index_set, lambda: None)
        self._gate = gate

    async def search(self, query: Query, options: Options, *, only: Collection[str] | None = None) -> SearchResult:
        await self._gate.wait()
        return await super().search(query, options, only=only)


async def test_a_search_is_counted_while_it_runs_and_no_longer(indexes: list[Index]) -> None:
    gate = asyncio.Event()
    fixture = NodeFixture(*indexes, wrap=lambda fixture: GatedIndexSet(fixture.index_set, gate))
    searches = [asyncio.ensure_future(fixture.node.search(search_request("needle", "alpha"))) for _ in range(2)]
    await asyncio.sleep(0)
    assert not await fixture.quiesce("alpha", within_s=0.0)
    searches[0].cancel()
    await asyncio.wait(searches[:1])
    assert not await fixture.quiesce("alpha", within_s=0.0)
    gate.set()
    await searches[1]
    assert await fixture.quiesce("alpha", within_s=0.0)
