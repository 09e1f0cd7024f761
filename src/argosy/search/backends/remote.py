"""Brings repositories to this machine: from origins through git, from its own disk as they lie there.

A mirror is kept for every address and fetched into, or the tip is cloned into a folder that goes when it has been read.
Whatever is wrong with one origin (no credentials, gone, too large, damaged, leading elsewhere) is an error that says
what to do; a damaged mirror is made anew once by itself.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from hashlib import sha256
from typing import TypeVar

import msgspec

from argosy.base import logs
from argosy.base.clock import Clock, SystemClock
from argosy.base.errors import NotFound, Unavailable
from argosy.base.urls import is_private
from argosy.search.backends.git import GitSource
from argosy.search.backends.git_errors import FetchFailed, Trouble, too_large, too_slow
from argosy.search.backends.git_hosts import addresses, remote_of
from argosy.search.backends.remote_credentials import Credentials
from argosy.search.backends.remote_git import (
    Bounds,
    Progress,
    TooLarge,
    Way,
    ignored,
    require_pinning,
    run_git,
    to_the_end,
)
from argosy.search.backends.remote_local import local_source
from argosy.search.backends.remote_mirrors import Mirror, Mirrors
from argosy.search.backends.remote_refs import HEAD, Listed, Ref, checked, chosen, listed
from argosy.search.backends.remote_route import Resolver, Routes, resolved
from argosy.search.catalog.addresses import Address, address_of, repository_id
from argosy.search.documents import Content, Entry, SkipReason, Source
from argosy.search.fleet.model import RepoSpec
from argosy.search.model import Branch, Repository
from argosy.search.settings import FetchSettings

SHA256_CHARS = 64  # of a commit's id
_PLACE = "refs/argosy/"
# Where each place stands, and for a tag with a text of its own the commit it is for.
_STANDS = "%(if)%(*objectname)%(then)%(*objectname)%(else)%(objectname)%(end) %(refname)"
_DAMAGE = {SkipReason.MISSING, SkipReason.UNREADABLE}
_ON_DISK = Bounds(120.0)  # for a git that reads and writes nothing but this disk
_T = TypeVar("_T")

log = logs.get("fetch")


class Fetched:
    """A source under the name it is wished for by; remembers whether anything in it could not be read."""

    def __init__(self, inner: Source, repository: Repository) -> None:
        self.repository = repository
        self.is_damaged = False
        self._inner = inner

    def entries(self) -> Sequence[Entry]:
        try:
            return self._inner.entries()
        except Unavailable:
            self.is_damaged = True
            raise

    def read(self, entries: Sequence[Entry]) -> Iterator[Content]:
        try:
            for content in self._inner.read(entries):
                if isinstance(content, SkipReason) and content in _DAMAGE:
                    self.is_damaged = True
                yield content
        except Unavailable:
            self.is_damaged = True
            raise


class RemoteFetcher:
    """Implements `search.fleet.ports.Fetcher`."""

    def __init__(
        self,
        settings: FetchSettings,
        *,
        clock: Clock | None = None,
        resolver: Resolver = resolved,
        private: Callable[[str], bool] = is_private,
    ) -> None:
        self._settings = settings
        clock = clock or SystemClock()
        self._credentials = Credentials(
            file=settings.credentials_file, command=settings.credentials_command, clock=clock
        )
        self._routes = Routes(
            self._credentials,
            allow_private=settings.allow_private,
            resolver=resolver,
            private=private,
            ask_s=settings.ls_remote_timeout_s,
        )
        self._mirrors = Mirrors(settings.dir, bytes_max=settings.dir_bytes_max, clock=clock)
        self._can_pin = False  # until it has been seen that this git can

    async def heads(self, spec: RepoSpec) -> tuple[Branch, ...]:
        """Where the wished branches stand at the origin now; of a folder on this machine, what it holds."""
        address = self._address(spec)
        if address.is_local:
            source = await asyncio.to_thread(local_source, address.path, spec.branches)
            return source.repository.branches
        return tuple(ref.branch for ref in await self._refs(address, spec.branches))

    def fetch(self, spec: RepoSpec, progress: Progress = ignored) -> AbstractAsyncContextManager[Source]:
        """The repository as it is now, under its wished name."""
        address = self._address(spec)
        if address.is_local:
            return self._local(address, spec)
        bring = self._mirrored if self._settings.mode == "mirror" else self._passing
        return bring(address, spec, progress)

    def _address(self, spec: RepoSpec) -> Address:
        return address_of(spec.url, allow_local=self._settings.allow_local)

    @asynccontextmanager
    async def _local(self, address: Address, spec: RepoSpec) -> AsyncIterator[Source]:
        source = await asyncio.to_thread(local_source, address.path, spec.branches)
        named = msgspec.structs.replace(source.repository, name=spec.name, id=repository_id(spec.name))
        yield Fetched(source, named)

    @asynccontextmanager
    async def _passing(self, address: Address, spec: RepoSpec, progress: Progress) -> AsyncIterator[Source]:
        refs = await self._refs(address, spec.branches)
        async with self._mirrors.passing() as (path, held):
            await self._made(address, refs, path, (held,), progress, "--depth=1")
            yield await _source(address, spec, refs, path)

    @asynccontextmanager
    async def _mirrored(self, address: Address, spec: RepoSpec, progress: Progress) -> AsyncIterator[Source]:
        refs = await self._refs(address, spec.branches)
        async with self._mirrors.open(address, wait_s=self._settings.timeout_s) as mirror:
            # What changes the mirror is never left to itself: it would go on when the lock is somebody else's.
            await to_the_end(asyncio.to_thread(mirror.tidy))
            try:
                source = await self._current(address, spec, refs, mirror, progress)
            except BaseException:
                await to_the_end(asyncio.to_thread(mirror.tidy))
                raise
            mirror.done_writing()
            for path in await asyncio.to_thread(self._mirrors.trim):
                log.info("mirror deleted", path=path)
            try:
                yield source
            finally:
                if source.is_damaged:
                    log.warning("mirror damaged", repository=spec.name)
                    mirror.mark_damaged()

    async def _current(
        self, address: Address, spec: RepoSpec, refs: Sequence[Ref], mirror: Mirror, progress: Progress
    ) -> Fetched:
        """The mirror with the wished commits in it: fetched into if there is a sound one, else made."""
        if mirror.is_there:
            try:
                await self._renewed(address, refs, mirror, progress)
            except FetchFailed as failed:
                if failed.trouble is not Trouble.DAMAGE:
                    raise failed.error from None
                why = str(failed)
            except TooLarge:
                why = "it has grown too large"
            else:
                try:
                    return await _source(address, spec, refs, mirror.path)
                except (Unavailable, NotFound) as error:
                    why = str(error)
            log.warning("mirror made anew", repository=spec.name, why=why)
        await to_the_end(asyncio.to_thread(mirror.discard))
        await self._made(address, refs, mirror.new_path, mirror.held, progress)
        mirror.publish()
        return await _source(address, spec, refs, mirror.path)

    async def _made(
        self, address: Address, refs: Sequence[Ref], path: str, held: tuple[int, ...], progress: Progress, *options: str
    ) -> None:
        """A new repository with the wished commits."""
        hash_name = "sha256" if len(refs[0].commit) == SHA256_CHARS else "sha1"
        setup = ("init", "--quiet", "--bare", "--template=", f"--object-format={hash_name}", path)
        try:
            await _here(address, setup)
            await self._fetched(address, refs, path, held, progress, *options)
        except FetchFailed as failed:
            raise failed.error from None
        except TooLarge:
            raise too_large(address, self._settings.repository_bytes_max) from None

    async def _renewed(self, address: Address, refs: Sequence[Ref], mirror: Mirror, progress: Progress) -> None:
        """Brings a mirror up to date. Places that are no longer wished for go after the fetch, which builds on them."""
        git = f"--git-dir={mirror.path}"
        output = await _here(address, (git, "for-each-ref", f"--format={_STANDS}"))
        here = {place: commit for commit, _, place in (line.partition(" ") for line in output.decode().splitlines())}
        if any(here.get(_place(ref)) != ref.commit for ref in refs):
            await self._fetched(address, refs, mirror.path, mirror.held, progress)
        for place in set(here) - {_place(ref) for ref in refs}:
            await _here(address, (git, "update-ref", "-d", place))
        if mirror.is_scattered:
            with mirror.alone() as is_alone:
                if is_alone:
                    bounds = Bounds(self._settings.timeout_s, held=mirror.held)
                    await _here(address, (git, "repack", "-a", "-d", "--quiet"), bounds)

    async def _fetched(
        self, address: Address, refs: Sequence[Ref], path: str, held: tuple[int, ...], progress: Progress, *options: str
    ) -> None:
        settings = self._settings
        bounds = Bounds(settings.timeout_s, path, settings.repository_bytes_max, held)
        options = ("--progress", "--force", "--no-tags", "--no-write-fetch-head", "--no-show-forced-updates", *options)
        wanted = [f"+{ref.place}:{_place(ref)}" for ref in refs]

        def job(way: Way) -> Awaitable[bytes]:
            fetch = (f"--git-dir={path}", "fetch", *options, "--", way.address.url, *wanted)
            return run_git(way, fetch, bounds, progress)

        await self._along(address, job, "fetch", settings.timeout_s)

    async def _refs(self, address: Address, branches: Sequence[str]) -> tuple[Ref, ...]:
        names = checked(branches)
        try:
            heads = await self._listed(address, "--symref", HEAD) if HEAD in names else Listed({})
            # Without HEAD there may be branches all the same; with none the repository is empty.
            if any(name != HEAD for name in names) or not heads.commits:
                others = await self._listed(address, "--heads", "--tags")
                heads = Listed({**others.commits, **heads.commits}, heads.head)
        except FetchFailed as failed:
            raise failed.error from None
        return chosen(address.url, names, heads)

    async def _listed(self, address: Address, *asked: str) -> Listed:
        options = tuple(word for word in asked if word.startswith("-"))
        patterns = asked[len(options) :]
        bounds = Bounds(self._settings.ls_remote_timeout_s)

        def job(way: Way) -> Awaitable[bytes]:
            return run_git(way, ("ls-remote", "--quiet", *options, "--", way.address.url, *patterns), bounds)

        return listed(await self._along(address, job, "tell its branches", self._settings.ls_remote_timeout_s))

    async def _along(self, address: Address, job: Callable[[Way], Awaitable[_T]], what: str, limit_s: float) -> _T:
        """Does the job on the way to an origin. Each trouble that another way may mend is met once."""
        is_led = self._routes.is_led(address)
        way = await self._routes.way(address)
        met: set[Trouble] = set()
        while True:
            try:
                if way.pinned and not self._can_pin:
                    await require_pinning(way)
                    self._can_pin = True
                return await job(way)
            except TimeoutError:
                raise too_slow(address, what, limit_s) from None
            except FetchFailed as failed:
                if failed.trouble in met:
                    raise
                met.add(failed.trouble)
                if failed.trouble is Trouble.REDIRECT:
                    is_led, way = False, await self._routes.follow(address)
                elif failed.trouble is Trouble.CREDENTIALS and self._credentials.refused(way.address):
                    way = await self._routes.way(address)
                elif is_led:  # where a redirect led some time ago, which may be past
                    is_led, met = False, set()
                    self._routes.forget(address)
                    way = await self._routes.way(address)
                else:
                    raise


async def _here(address: Address, arguments: Sequence[str], bounds: Bounds = _ON_DISK) -> bytes:
    """Runs a git that talks to nobody."""
    try:
        return await run_git(Way(address), arguments, bounds)
    except TimeoutError:
        limit = f"{bounds.time_s:.0f} s"
        raise Unavailable(f"git took longer than {limit} on the copy of {address.url}: check the disk") from None


async def _source(address: Address, spec: RepoSpec, refs: Sequence[Ref], path: str) -> Fetched:
    """The fetched commits as a source that tells where they are from, not where they lie."""
    try:
        source = await asyncio.to_thread(GitSource, path, [_place(ref) for ref in refs])
    except NotFound:
        raise NotFound(f"a branch or tag of {address.url} leads to no commit: name others") from None
    found = source.repository
    remote = remote_of(address.url)
    templates = addresses(remote.kind, remote.url)
    commits = [branch.version for branch in found.branches]
    if len(commits) != len(refs):  # git takes a copy without any place for an empty one
        raise Unavailable(f"the copy of {address.url} has lost its branches: it will be tried again")
    repository = msgspec.structs.replace(
        found,
        name=spec.name,
        id=repository_id(spec.name),
        branches=tuple(Branch(ref.name, commit) for ref, commit in zip(refs, commits, strict=True)),
        url=remote.url,
        source=address.url,
        file_url_template=templates.file,
        commit_url_template=templates.commit,
        line_fragment_template=templates.line,
    )
    return Fetched(source, repository)


def _place(ref: Ref) -> str:
    """Where a branch is kept in a copy. Flat, because a branch `a` that becomes `a/b` could not be stored otherwise."""
    return _PLACE + sha256(ref.place.encode(errors="surrogateescape")).hexdigest()[:32]
