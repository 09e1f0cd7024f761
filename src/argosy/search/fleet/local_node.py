"""The desk of a node: answers for the repositories it may answer for at this instant, and names the others.

Rule: nothing is told of a repository whose lease was not held both before and after the work (OWN-1). What was found in
a repository that was lost meanwhile may have pushed better matches out of the answer, so the rest is searched again.
"""

from collections.abc import AsyncIterator, Callable, Collection, Iterable
from types import TracebackType
from typing import Protocol, TypeVar

from msgspec.structs import replace

from argosy import __version__
from argosy.base.clock import Clock
from argosy.base.tracing import NO_TRACER, Tracer
from argosy.search.fleet import file_browser
from argosy.search.fleet.codec import wall_time_s
from argosy.search.fleet.index_counts import Listings
from argosy.search.fleet.model import (
    FileRequest,
    FileText,
    FolderListing,
    FolderRequest,
    ListResult,
    NodeStatus,
    SearchRequest,
)
from argosy.search.fleet.serving_set import IndexLookup, Progress, ServingSet
from argosy.search.index.index import Index
from argosy.search.index.wire import dump
from argosy.search.model import Missing, Options, Repository, SearchResult
from argosy.search.query.parse import parse
from argosy.search.query.tree import Query
from argosy.search.settings import SearchSettings

QUIET_WITHIN_S = 5.0  # a drop waits so long for questions under way, and no longer
QUIET_LOOK_S = 0.005
SEARCH_S_MIN = 0.001  # what a search begun anew is given when its time is up: zero would be no bound

_T = TypeVar("_T")


class Indexes(IndexLookup, Protocol):
    """The indexes at hand: a shelf."""

    async def search(self, query: Query, options: Options, *, only: Collection[str] | None = None) -> SearchResult: ...

    async def repositories(self, query: Query, *, only: Collection[str] | None = None) -> tuple[Repository, ...]: ...


class IndexHost(Progress, Protocol):
    """Who keeps the indexes."""

    def served(self, names: Collection[str]) -> None:
        """These were shown to somebody just now."""
        ...

    def budget_bytes(self) -> int: ...
    def held_bytes(self) -> int: ...
    def free_bytes(self) -> int: ...


class InThread(Protocol):
    """Runs work that takes milliseconds where it holds nobody up: `asyncio.to_thread`."""

    async def __call__(self, work: Callable[[], _T], /) -> _T: ...


def _nobody(name: str) -> str | None:
    return None


def _never() -> bool:
    return False


class LocalNode:
    """The Node port over a shelf."""

    def __init__(
        self,
        indexes: Indexes,
        keeper: IndexHost,
        *,
        node_id: str,
        address: str,
        may_answer: Callable[[str], bool],
        in_thread: InThread,
        clock: Clock,
        settings: SearchSettings | None = None,
        holder_of: Callable[[str], str | None] = _nobody,
        is_draining: Callable[[], bool] = _never,
        tracer: Tracer = NO_TRACER,
    ) -> None:
        self._indexes = indexes
        self._keeper = keeper
        self._node_id = node_id
        self._address = address
        self._standing = ServingSet(indexes, keeper, node_id=node_id, may_answer=may_answer, holder_of=holder_of)
        self._in_thread = in_thread
        self._clock = clock
        self._settings = settings or SearchSettings()
        self._is_draining = is_draining
        self._tracer = tracer
        self._listings = Listings()
        self._under_way: dict[object, Collection[str]] = {}  # questions, and the repositories they are about
        self._started_at = clock.wall()

    # -- questions about many repositories --------------------------------------------------------------------------

    async def search(self, asked: SearchRequest) -> SearchResult:
        query, options = parse(asked.query).query, self._bounded(asked.options)
        ends_at = self._clock.now() + options.wall_time_s
        held, missing = self._standing.sorted(asked.repositories)
        answer = SearchResult()
        with self._tracer.span("search serve", node=self._node_id, repositories=len(held)):
            while held:
                with self._counted(held):
                    answer = await self._indexes.search(query, options, only=held.keys())
                lost = self._standing.lost(held)
                if not lost:
                    break
                missing += lost
                answer = SearchResult()
                options = replace(options, wall_time_s=max(SEARCH_S_MIN, ends_at - self._clock.now()))
        shown = dict.fromkeys(file.repository for file in answer.files)
        self._keeper.served(shown.keys())
        repositories = {name: held[name].repository for name in shown}
        return replace(answer, missing=_by_name(missing), repositories=repositories)

    async def list(self, asked: SearchRequest) -> ListResult:
        query = parse(asked.query).query
        held, missing = self._standing.sorted(asked.repositories)
        with self._counted(held):
            found = await self._indexes.repositories(query, only=held.keys()) if held else ()
            known = self._standing.statuses()
            entries = await self._in_thread(
                lambda: [self._listings.entry(held[each.name], known.get(each.name)) for each in found]
            )
        missing += self._standing.lost(held)
        return ListResult(tuple(each for each in entries if each.repository.name in held), _by_name(missing))

    def _bounded(self, options: Options) -> Options:
        most = self._settings.result_files_max
        files_max = min(options.files_max, most) if options.files_max > 0 else most
        return replace(options, files_max=files_max, wall_time_s=wall_time_s(options))

    # -- questions about one ----------------------------------------------------------------------------------------

    async def file(self, asked: FileRequest) -> FileText:
        return await self._looked(asked.repository, lambda index: file_browser.file_text(index, asked))

    async def folder(self, asked: FolderRequest) -> FolderListing:
        return await self._looked(asked.repository, lambda index: file_browser.folder(index, asked))

    async def _looked(self, name: str, look: Callable[[Index], _T]) -> _T:
        index = self._standing.index(name)
        with self._counted([name]):
            answer = await self._in_thread(lambda: look(index))
        self._standing.check(name)
        self._keeper.served([name])
        return answer

    async def index(self, repository: str) -> AsyncIterator[bytes]:
        """A chunk is made when it is asked for, so a slow reader costs nothing but its own time.

        The lease is asked for once: what is sent is one version of the repository and stays true whoever holds it.
        """
        chunks = dump(self._standing.index(repository))
        with self._counted([repository]):
            while chunk := await self._in_thread(lambda: next(chunks, b"")):
                yield chunk

    # -- itself -----------------------------------------------------------------------------------------------------

    async def status(self) -> NodeStatus:
        return NodeStatus(
            node=self._node_id,
            address=self._address,
            version=__version__,
            started_at=self._started_at,
            is_draining=self._is_draining(),
            budget_bytes=self._keeper.budget_bytes(),
            held_bytes=self._keeper.held_bytes(),
            free_bytes=self._keeper.free_bytes(),
            repositories=self._keeper.statuses(),
        )

    async def quiesce(self, name: str, *, within_s: float = QUIET_WITHIN_S) -> bool:
        """Waits until no question about the repository is under way; False if some still were after so long."""
        ends_at = self._clock.now() + within_s
        while self._is_asked(name) and self._clock.now() < ends_at:
            await self._clock.sleep(QUIET_LOOK_S)
        return not self._is_asked(name)

    def _is_asked(self, name: str) -> bool:
        return any(name in names for names in self._under_way.values())

    def _counted(self, names: Collection[str]) -> "_Counted":
        """While within it, questions about these are under way."""
        return _Counted(self._under_way, names)


class _Counted:
    def __init__(self, under_way: dict[object, Collection[str]], names: Collection[str]) -> None:
        self._under_way = under_way
        self._names = names

    def __enter__(self) -> None:
        self._under_way[self] = self._names

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        del self._under_way[self]


def _by_name(missing: Iterable[Missing]) -> tuple[Missing, ...]:
    return tuple(sorted(missing, key=lambda each: each.repository))
