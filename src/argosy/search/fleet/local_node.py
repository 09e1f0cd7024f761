"""The Node port in process: answers for the repositories this node may serve at this instant, and reports the others as
missing.

OWN-1: a result holds nothing of a repository whose lease was not held both before and after the work. Matches of a
repository that was lost meanwhile may have displaced better ones, so the rest is searched again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from types import TracebackType
from typing import Protocol, TypeVar

from msgspec.structs import replace

from argosy import __version__
from argosy.base.clock import Clock
from argosy.base.errors import NotFound, NotOwner, Unavailable
from argosy.base.tracing import NO_TRACER, Tracer
from argosy.search.fleet import repo_contents
from argosy.search.fleet.model import (
    FileRequest,
    FileText,
    FolderListing,
    FolderRequest,
    ListResult,
    NodeStatus,
    Phase,
    RepoStatus,
    SearchRequest,
)
from argosy.search.fleet.protocol import wall_time_s
from argosy.search.fleet.repo_contents import IndexCounts
from argosy.search.index.index import Index
from argosy.search.index.wire import dump
from argosy.search.model import Missing, MissingReason, Options, Repository, SearchResult
from argosy.search.query.codec import decode_query
from argosy.search.query.tree import Query
from argosy.search.settings import SearchSettings

_WITH_PROGRESS = (Phase.FETCHING, Phase.RECEIVING, Phase.INDEXING)


class IndexLookup(Protocol):
    """Loaded indexes by name; NotFound if there is none."""

    def get(self, name: str) -> Index: ...


class StatusSource(Protocol):
    """The state of every held repository."""

    def statuses(self) -> tuple[RepoStatus, ...]: ...


class ServingSet:
    """The serving set of one node. No method awaits, so a result is valid until the caller's next await."""

    def __init__(
        self,
        indexes: IndexLookup,
        status_source: StatusSource,
        *,
        node_id: str,
        may_answer: Callable[[str], bool],
        holder_of: Callable[[str], str | None],  # the address to try instead
    ) -> None:
        self._indexes = indexes
        self._status_source = status_source
        self._node_id = node_id
        self._may_answer = may_answer
        self._holder_of = holder_of

    def split(self, names: Iterable[str]) -> tuple[dict[str, Index], list[Missing]]:
        """The indexes of the repositories that can be served, and the reasons for the others."""
        held: dict[str, Index] = {}
        absent: dict[str, None] = {}
        for name in names:
            index = self._find(name) if self._may_answer(name) else None
            if index is None:
                absent[name] = None
            else:
                held[name] = index
        return held, self._missing(list(absent)) if absent else []

    def drop_lost(self, held: dict[str, Index]) -> list[Missing]:
        """Removes from `held` what can no longer be served, and returns the reasons."""
        lost = [name for name in held if not self._may_answer(name) or self._find(name) is None]
        if not lost:
            return []
        for name in lost:
            del held[name]
        return self._missing(lost)

    def index(self, name: str) -> Index:
        """NotOwner if this node may not answer for the repository, Unavailable if its index is not loaded yet."""
        self.check(name)
        index = self._find(name)
        if index is None:
            missing = self._reason(name, self.statuses().get(name))
            raise Unavailable(f"{name!r}: index not ready ({missing.why.value}: {missing.detail}); retry")
        return index

    def check(self, name: str) -> None:
        if not self._may_answer(name):
            hint = self._holder_of(name)
            raise NotOwner(f"node {self._node_id} does not hold {name!r}; retry at its holder", hint=hint)

    def statuses(self) -> dict[str, RepoStatus]:
        return {each.name: each for each in self._status_source.statuses()}

    def _missing(self, names: list[str]) -> list[Missing]:
        statuses = self.statuses() if names else {}
        return [self._reason(name, statuses.get(name)) for name in names]

    def _reason(self, name: str, status: RepoStatus | None) -> Missing:
        if not self._may_answer(name):
            return Missing(name, MissingReason.UNOWNED, f"node {self._node_id} does not hold it")
        if status is not None and status.phase is Phase.FAILED:
            return Missing(name, MissingReason.FAILED, status.reason)
        return Missing(name, MissingReason.WARMING, _progress_text(status))

    def _find(self, name: str) -> Index | None:
        try:
            return self._indexes.get(name)
        except NotFound:
            return None


def _progress_text(status: RepoStatus | None) -> str:
    if status is None:
        return Phase.WAITING.value
    phase = status.phase
    return f"{phase.value}, {status.progress:.0%}" if phase in _WITH_PROGRESS else phase.value


SEARCH_S_MIN = 0.001  # for a repeated search whose time is up: zero would mean no limit

_T = TypeVar("_T")


class SearchableIndexes(IndexLookup, Protocol):
    """The loaded indexes of a node; an index set implements it."""

    async def search(self, query: Query, options: Options, *, only: Collection[str] | None = None) -> SearchResult: ...

    async def repositories(self, query: Query, *, only: Collection[str] | None = None) -> tuple[Repository, ...]: ...


class IndexHost(StatusSource, Protocol):
    """The owner of the indexes; `SearchNode` implements it."""

    def record_searches(self, names: Collection[str]) -> None:
        """Counts one search of each repository."""
        ...

    def budget_bytes(self) -> int: ...
    def held_bytes(self) -> int: ...
    def free_bytes(self) -> int: ...


class InThread(Protocol):
    """Runs work of milliseconds off the event loop: `asyncio.to_thread`."""

    async def __call__(self, work: Callable[[], _T], /) -> _T: ...


def _no_holder(name: str) -> str | None:
    return None


def _never() -> bool:
    return False


class LocalNode:
    """Implements `ports.Node` over the indexes of this process."""

    def __init__(
        self,
        indexes: SearchableIndexes,
        host: IndexHost,
        *,
        node_id: str,
        address: str,
        may_answer: Callable[[str], bool],
        in_thread: InThread,
        clock: Clock,
        settings: SearchSettings | None = None,
        holder_of: Callable[[str], str | None] = _no_holder,
        is_draining: Callable[[], bool] = _never,
        tracer: Tracer = NO_TRACER,
    ) -> None:
        self._indexes = indexes
        self._host = host
        self._node_id = node_id
        self._address = address
        self._serving = ServingSet(indexes, host, node_id=node_id, may_answer=may_answer, holder_of=holder_of)
        self._in_thread = in_thread
        self._clock = clock
        self._settings = settings or SearchSettings()
        self._is_draining = is_draining
        self._tracer = tracer
        self._counts = IndexCounts()
        self._requests = _RequestTracker()
        # Wall time, because other processes read it.
        self._started_at = clock.wall()

    # -- requests about many repositories ---------------------------------------------------------------------------

    async def search(self, request: SearchRequest) -> SearchResult:
        query, options = decode_query(request.query), self._with_limits(request.options)
        ends_at = self._clock.now() + options.wall_time_s
        held, missing = self._serving.split(request.repositories)
        answer = SearchResult()
        with self._tracer.span("search serve", node=self._node_id, repositories=len(held)):
            # This ends, because each further turn has lost at least one repository.
            while held:
                with self._requests.track(held):
                    answer = await self._indexes.search(query, options, only=held.keys())
                # OWN-1: a lease may have been lost while the search was running.
                lost = self._serving.drop_lost(held)
                if not lost:
                    break
                missing += lost
                answer = SearchResult()
                options = replace(options, wall_time_s=max(SEARCH_S_MIN, ends_at - self._clock.now()))
        matched = dict.fromkeys(file.repository for file in answer.files)
        self._host.record_searches(matched.keys())
        repositories = {name: held[name].repository for name in matched}
        return replace(answer, missing=_by_name(missing), repositories=repositories)

    async def list(self, request: SearchRequest) -> ListResult:
        query = decode_query(request.query)
        held, missing = self._serving.split(request.repositories)
        with self._requests.track(held):
            found = await self._indexes.repositories(query, only=held.keys()) if held else ()
            statuses = self._serving.statuses()
            # In a thread: the first listing of an index counts all its newlines, which takes milliseconds.
            entries = await self._in_thread(
                lambda: [self._counts.listing(held[each.name], statuses.get(each.name)) for each in found]
            )
        # OWN-1, as in `search`; an entry is about one repository, so the others remain valid.
        missing += self._serving.drop_lost(held)
        return ListResult(tuple(each for each in entries if each.repository.name in held), _by_name(missing))

    def _with_limits(self, options: Options) -> Options:
        # Without a limit of its own a request could make the node encode all of its files.
        most = self._settings.result_files_max
        files_max = min(options.files_max, most) if options.files_max > 0 else most
        return replace(options, files_max=files_max, wall_time_s=wall_time_s(options))

    # -- requests about one repository ------------------------------------------------------------------------------

    async def file(self, request: FileRequest) -> FileText:
        return await self._browse(request.repository, lambda index: repo_contents.file_text(index, request))

    async def folder(self, request: FolderRequest) -> FolderListing:
        return await self._browse(request.repository, lambda index: repo_contents.folder(index, request))

    async def _browse(self, name: str, read: Callable[[Index], _T]) -> _T:
        index = self._serving.index(name)
        with self._requests.track([name]):
            result = await self._in_thread(lambda: read(index))
        # OWN-1: the lease may have been lost while the file was read.
        self._serving.check(name)
        self._host.record_searches([name])
        return result

    async def index(self, repository: str) -> AsyncIterator[bytes]:
        """A chunk is produced when the reader takes it, so a slow reader costs no memory.

        The lease is checked once: the stream is one version of the repository, which stays valid after the lease moves.
        """
        chunks = dump(self._serving.index(repository))
        with self._requests.track([repository]):
            while chunk := await self._in_thread(lambda: next(chunks, b"")):
                yield chunk

    # -- the node itself --------------------------------------------------------------------------------------------

    async def status(self) -> NodeStatus:
        return NodeStatus(
            node=self._node_id,
            address=self._address,
            version=__version__,
            started_at=self._started_at,
            is_draining=self._is_draining(),
            budget_bytes=self._host.budget_bytes(),
            held_bytes=self._host.held_bytes(),
            free_bytes=self._host.free_bytes(),
            repositories=self._host.statuses(),
        )

    def is_busy(self, name: str) -> bool:
        """Whether a request about the repository is under way."""
        return self._requests.is_busy(name)

    async def wait_idle(self, name: str) -> None:
        """Returns as soon as no request about the repository is under way."""
        await self._requests.wait_idle(name)


class _RequestTracker:
    """The requests under way, and the repositories they are about."""

    def __init__(self) -> None:
        self.under_way: dict[object, Collection[str]] = {}
        self.waiting: dict[asyncio.Event, str] = {}

    def track(self, names: Collection[str]) -> "_RequestScope":
        """A context within which a request about these repositories is under way."""
        return _RequestScope(self, names)

    def is_busy(self, name: str) -> bool:
        return any(name in names for names in self.under_way.values())

    async def wait_idle(self, name: str) -> None:
        while self.is_busy(name):
            idle = asyncio.Event()
            self.waiting[idle] = name
            try:
                await idle.wait()
            finally:
                del self.waiting[idle]

    def wake_idle(self) -> None:
        for idle, name in self.waiting.items():
            if not self.is_busy(name):
                idle.set()


class _RequestScope:
    def __init__(self, tracker: _RequestTracker, names: Collection[str]) -> None:
        self._tracker = tracker
        self._names = names

    def __enter__(self) -> None:
        self._tracker.under_way[self] = self._names

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        del self._tracker.under_way[self]
        if self._tracker.waiting:  # nearly never: requests end thousands of times a second, drops are rare
            self._tracker.wake_idle()


def _by_name(missing: Iterable[Missing]) -> tuple[Missing, ...]:
    return tuple(sorted(missing, key=lambda each: each.repository))
