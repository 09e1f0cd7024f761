"""The index set: many indexes, searched by any number of threads, as they were when the search began."""

import asyncio
import gc
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec import structs

from argosy.base.errors import NotFound, Unavailable
from argosy.search import index_set
from argosy.search.index.index import Index
from argosy.search.index.kernel_tables import KernelTables
from argosy.search.index_set import IndexSet
from argosy.search.match import Collector, Search, Task
from argosy.search.match.tasks import LiteralTask
from argosy.search.model import Form, LimitHit, Options, SearchResult
from argosy.search.query import parse
from argosy.search.query.tree import TRUE, Query
from tests.search.match.search_calls import build_index, tree_of

CODE = b"def launch():\n    return 'needle'\n\n"


def repository(name: str, rank: int = 0, files: int = 20) -> Index:
    return build_index({f"{name}{i}.py": CODE * (1 + i % 7) + b"# %d\n" % i for i in range(files)}, name, rank)


@pytest.fixture(scope="module")
def indexes() -> list[Index]:
    return [repository("alpha"), repository("beta", rank=9), repository("gamma", rank=5)]


class SetClock:
    """A clock that is set, and may advance at every reading."""

    def __init__(self, step_s: float = 0.0) -> None:
        self.now_s = 0.0
        self.step_s = step_s

    def now(self) -> float:
        self.now_s += self.step_s
        return self.now_s

    def wall(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def searcher(indexes: list[Index]) -> Iterator[IndexSet]:
    searcher = IndexSet(indexes, threads=2, clock=SetClock())
    yield searcher
    searcher.close()


def without_time(answer: SearchResult) -> SearchResult:
    return structs.replace(answer, stats=structs.replace(answer.stats, duration_s=0.0))


@pytest.mark.parametrize("options", [Options(), Options(files_max=7), Options(form=Form.COUNT), Options(use_bm25=True)])
@pytest.mark.parametrize("text", ["needle", "launch file:5", "sym:launch", "-needle", "ret.*eed", "r:beta needle"])
def test_threads_change_nothing_but_the_time(
    indexes: list[Index], text: str, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_set, "ALONE_BYTES", 0)  # whatever the size, the work is shared out
    answers = []
    for threads in (1, 2, 3):
        searcher = IndexSet(indexes, threads=threads, clock=SetClock())
        answers.append(without_time(searcher.search_now(parse(text).query, options)))
        searcher.close()
    assert answers[0] == answers[1] == answers[2]
    assert answers[0].stats.indexes_searched + answers[0].stats.indexes_excluded == 3


def test_enough_work_is_distributed_over_threads(indexes: list[Index], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[str] = set()
    run = LiteralTask.run

    def record_call(task: LiteralTask) -> Collector:
        seen.add(threading.current_thread().name)
        return run(task)

    monkeypatch.setattr(LiteralTask, "run", record_call)
    monkeypatch.setattr("argosy.search.match.literal_query.PIECE_BYTES", 4_000)
    searcher = IndexSet(indexes, threads=2)
    searcher.search_now(tree_of("needle"), Options())
    assert seen == {threading.current_thread().name}
    seen.clear()
    monkeypatch.setattr(index_set, "ALONE_BYTES", 0)
    searcher.search_now(tree_of("needle"), Options())
    searcher.close()
    assert seen
    assert all(name.startswith("search") for name in seen)


def test_the_best_repositories_are_searched_first(searcher: IndexSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("argosy.search.match.evaluate.BATCH_DOCUMENTS", 5)
    answer = searcher.search_now(tree_of("needle"), Options(total_match_limit=1))
    assert {file.repository for file in answer.files} == {"beta"}
    assert answer.limits_hit == (LimitHit.TOTAL_MATCHES,)
    assert (answer.stats.indexes_searched, answer.stats.indexes_skipped) == (1, 2)


def test_a_tie_between_files_goes_to_the_better_repository(searcher: IndexSet) -> None:
    files = searcher.search_now(tree_of("sym:launch"), Options(files_max=0)).files
    assert list(dict.fromkeys(file.repository for file in files)) == ["beta", "gamma", "alpha"]


def test_put_replaces_an_index_and_drop_removes_it(indexes: list[Index]) -> None:
    searcher = IndexSet(indexes[:1], threads=1)
    renewed = build_index({"new.py": b"needle\n"}, "alpha")
    searcher.put(renewed)
    assert searcher.get("alpha") is renewed
    assert [file.path for file in searcher.search_now(tree_of("needle"), Options()).files] == ["new.py"]
    searcher.drop("alpha")
    assert searcher.search_now(tree_of("needle"), Options()).stats.indexes_searched == 0
    with pytest.raises(NotFound, match="'alpha'"):
        searcher.drop("alpha")
    with pytest.raises(NotFound, match="'alpha'"):
        searcher.get("alpha")
    searcher.close()


def test_a_search_sees_the_index_set_as_it_was_at_the_start(
    indexes: list[Index], monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = Search.tasks

    def disturbed(search: Search, tables: KernelTables, collector: Collector) -> list[Task]:
        """The index set changes before and after the postings are read: only the search still holds the old index."""
        searcher.drop("alpha")
        searcher.put(repository("beta", files=1))
        found = tasks(search, tables, collector)
        searcher.put(repository("delta"))
        gc.collect()
        return found

    for text in ("needle", "need.e"):
        searcher = IndexSet(indexes, threads=1)
        before = searcher.search_now(tree_of(text), Options(files_max=0))
        with monkeypatch.context() as patch:
            patch.setattr(Search, "tasks", disturbed)
            during = searcher.search_now(tree_of(text), Options(files_max=0))
        assert during.files == before.files
        after = searcher.search_now(tree_of(text), Options(files_max=0))
        assert Counter(file.repository for file in after.files) == {"beta": 1, "gamma": 20, "delta": 20}
        searcher.close()


def test_a_replaced_index_is_not_kept(indexes: list[Index]) -> None:
    """Memory is what indexes are made of: what is dropped is free as soon as no search sees it."""
    searcher = IndexSet(indexes, threads=1)
    old = repository("delta")
    watched = weakref.ref(old.parts[0].segment.content.data)
    searcher.put(old)
    assert searcher.search_now(tree_of("needle"), Options(files_max=1)).files
    searcher.put(repository("delta"))
    del old
    gc.collect()
    assert watched() is None
    searcher.close()


def test_putting_and_dropping_in_many_threads_loses_nothing(indexes: list[Index]) -> None:
    searcher = IndexSet(threads=1)
    small = [build_index({"a": b"needle"}, f"repo{i}") for i in range(40)]
    begin = threading.Barrier(4)

    def change(mine: list[Index]) -> None:
        begin.wait()
        for index in mine:
            searcher.put(index)
            assert searcher.search_now(tree_of("needle"), Options(form=Form.COUNT)).stats.files >= 1
        searcher.drop(mine[0].repository.name)

    threads = [threading.Thread(target=change, args=(small[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert searcher.search_now(tree_of("needle"), Options(form=Form.COUNT)).stats.files == 36
    searcher.close()


async def test_searching_without_waiting_answers_the_same(searcher: IndexSet) -> None:
    answer = await searcher.search(tree_of("needle"), Options())
    assert answer == searcher.search_now(tree_of("needle"), Options())


async def test_only_the_named_repositories_are_search(searcher: IndexSet) -> None:
    options = Options(files_max=0)
    answer = await searcher.search(tree_of("needle"), options, only={"gamma", "alpha", "nowhere"})
    whole = await searcher.search(tree_of("needle"), options)
    assert [file.path for file in answer.files] == [file.path for file in whole.files if file.repository != "beta"]
    assert answer.stats.indexes_searched == 2
    assert (await searcher.search(tree_of("needle"), options, only=())).files == ()
    assert [each.name for each in await searcher.repositories(TRUE, only={"gamma", "nowhere"})] == ["gamma"]


async def test_what_is_dropped_after_the_call_is_still_search(indexes: list[Index]) -> None:
    """A search that waits for a free thread would otherwise miss it without a report."""
    searcher, gate = IndexSet(indexes, threads=1), threading.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    busy = loop.run_in_executor(None, gate.wait)
    task = asyncio.ensure_future(searcher.search(tree_of("needle"), Options(files_max=0), only={"alpha"}))
    await asyncio.sleep(0)
    searcher.drop("alpha")
    gate.set()
    assert {file.repository for file in (await task).files} == {"alpha"}
    assert await busy
    searcher.close()


async def test_a_cancelled_call_ends_the_search_in_its_thread(indexes: list[Index]) -> None:
    """The thread loops until the flag is raised: if it were never raised, it would never end."""
    started, ended = threading.Event(), threading.Event()

    class Endless(IndexSet):
        def _search(
            self,
            indexes: KernelTables,
            query: Query,
            options: Options,
            is_cancelled: Callable[[], bool],
            requested_at: float | None = None,
        ) -> SearchResult:
            started.set()
            while not is_cancelled():
                super()._search(indexes, query, options, is_cancelled)
            answer = super()._search(indexes, query, options, is_cancelled)
            assert answer.limits_hit == (LimitHit.CANCELLED,)
            ended.set()
            return answer

    searcher = Endless(indexes, threads=2)
    call = asyncio.create_task(searcher.search(tree_of("need.e"), Options()))
    assert await asyncio.to_thread(started.wait, 60)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await asyncio.to_thread(ended.wait, 60)
    searcher.close()


@pytest.mark.parametrize(("text", "wall_time_s"), [("needle", 2.0), ("needle", 3.0), ("need.e", 4.0)])
def test_a_timeout_is_reported(indexes: list[Index], text: str, wall_time_s: float) -> None:
    """Before the postings are read, before the text is looked at, or in between."""
    searcher = IndexSet(indexes, threads=1, clock=SetClock(step_s=1.0))
    answer = searcher.search_now(tree_of(text), Options(wall_time_s=wall_time_s))
    assert answer.limits_hit == (LimitHit.WALL_TIME,)
    assert answer.stats.indexes_searched + answer.stats.indexes_skipped == 3
    assert answer.stats.duration_s >= wall_time_s - 1
    searcher.close()


async def test_the_repositories_with_a_match_by_name(searcher: IndexSet) -> None:
    async def names(text: str) -> list[str]:
        return [each.name for each in await searcher.repositories(parse(text).query)]

    assert await names("needle") == ["alpha", "beta", "gamma"]
    assert await names("r:a$ -r:gam") == ["alpha", "beta"]
    assert await names("file:beta1") == ["beta"]
    assert await names("type:repo launch file:gamma") == ["gamma"]
    assert await names("nowhere") == []
    assert [each.rank for each in await searcher.repositories(TRUE)] == [0, 9, 5]


def test_an_incomplete_list_of_repositories_is_rejected(indexes: list[Index]) -> None:
    searcher = IndexSet(indexes, threads=1, clock=SetClock(step_s=12.0))
    with pytest.raises(Unavailable, match="20 s"):
        searcher.repositories_now(tree_of("needle"))
    searcher.close()


def test_an_empty_index_set_answers() -> None:
    searcher = IndexSet(threads=1)
    answer = searcher.search_now(tree_of("needle"), Options())
    assert (answer.files, answer.is_complete, answer.stats.indexes_searched) == ((), True, 0)
    searcher.close()


async def test_a_brief_search_needs_no_thread(indexes: list[Index], monkeypatch: pytest.MonkeyPatch) -> None:
    searcher = IndexSet(indexes, clock=SetClock(), cpu_s=lambda: 0.0)
    expected = searcher.search_now(parse("needle launch").query, Options())
    monkeypatch.setattr(index_set.asyncio, "to_thread", None)
    assert await searcher.search(parse("needle launch").query, Options()) == expected
    for text in ("ne.dle", "in", "needle or launch", "sym:launch"):  # their cost is not known beforehand
        with pytest.raises(TypeError, match="not callable"):
            await searcher.search(parse(text).query, Options())
    searcher.close()


@pytest.mark.parametrize(
    "step_s", [index_set.BRIEF_S / 3, index_set.BRIEF_S, index_set.HELD_UP_S_MAX], ids=["in between", "at once", "anew"]
)
async def test_a_search_that_turns_out_not_to_be_brief_goes_on_in_a_thread(
    step_s: float, indexes: list[Index], monkeypatch: pytest.MonkeyPatch
) -> None:
    handed: list[object] = []
    to_thread = asyncio.to_thread

    async def record_call(work: Callable[..., SearchResult], *given: object) -> SearchResult:
        handed.append(work)
        return await to_thread(work, *given)

    searcher = IndexSet(indexes, clock=SetClock(), cpu_s=SetClock(step_s=step_s).now)
    query, options = parse("needle").query, Options(wall_time_s=0.0)
    expected = without_time(searcher.search_now(query, options))
    monkeypatch.setattr(index_set.asyncio, "to_thread", record_call)
    for count in (1, 2, 3):
        found = without_time(await searcher.search(query, options))
        assert structs.replace(found, stats=structs.replace(found.stats, wait_s=0.0)) == expected
        assert len(handed) == count
    searcher.close()
