"""Fetches repositories for a node: from origins through git, and from this machine's disk as they are there.

In mode `mirror` each address has a bare mirror that is fetched into; otherwise the tip is cloned into a folder that is
deleted after reading. Every problem of an origin (no credentials, deleted, too large, damaged, redirected) is an error
that says what to do. A damaged mirror is cloned again, once per fetch.
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
from argosy.search.backends.factory import open_local
from argosy.search.backends.git import GitSource
from argosy.search.backends.git_errors import FetchFailed, FetchProblem, size_error, timeout_error
from argosy.search.backends.git_metadata import remote_of, url_templates
from argosy.search.backends.git_refs import HEAD, OriginRef, OriginRefs, check_names, parse_ls_remote, select_refs
from argosy.search.backends.remote_credentials import Credentials
from argosy.search.backends.remote_git import (
    FolderTooLarge,
    GitLimits,
    OriginRoute,
    Progress,
    no_progress,
    require_pinning,
    run_git,
    run_to_end,
)
from argosy.search.backends.remote_mirrors import Mirror, Mirrors
from argosy.search.backends.remote_route import OriginRoutes, Resolver, resolve
from argosy.search.catalog.addresses import Address, address_of, repository_id
from argosy.search.documents import Content, Entry, SkipReason, Source
from argosy.search.fleet.model import RepoSpec
from argosy.search.model import Branch, Repository
from argosy.search.settings import FetchSettings

SHA256_CHARS = 64  # of a commit's id
# A namespace of our own, so that no fetch touches `HEAD` or the branches of a bare repository.
_REF_PREFIX = "refs/argosy/"
# The commit of each ref; of an annotated tag, the commit it points to.
_REF_FORMAT = "%(if)%(*objectname)%(then)%(*objectname)%(else)%(objectname)%(end) %(refname)"
_DAMAGE = {SkipReason.MISSING, SkipReason.UNREADABLE}
_LOCAL_LIMITS = GitLimits(120.0)  # for a git that only reads and writes this disk
_T = TypeVar("_T")

log = logs.get("fetch")


class FetchedSource:
    """A source under the name it has in the catalog; it records whether anything in it could not be read."""

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
        resolver: Resolver = resolve,
        private: Callable[[str], bool] = is_private,
    ) -> None:
        self._settings = settings
        clock = clock or SystemClock()
        self._credentials = Credentials(
            file=settings.credentials_file, command=settings.credentials_command, clock=clock
        )
        self._routes = OriginRoutes(
            self._credentials,
            allow_private=settings.allow_private,
            resolver=resolver,
            private=private,
            timeout_s=settings.ls_remote_timeout_s,
        )
        self._mirrors = Mirrors(settings.dir, bytes_max=settings.dir_bytes_max, clock=clock)
        self._supports_pinning = False  # until this git's version was checked

    async def heads(self, spec: RepoSpec) -> tuple[Branch, ...]:
        """The commits of the spec's branches at the origin; of a local folder, its fingerprint."""
        address = self._address(spec)
        if address.is_local:
            source = await asyncio.to_thread(open_local, address.path, spec.branches)
            return source.repository.branches
        return tuple(ref.branch for ref in await self._ls_remote(address, spec.branches))

    def fetch(self, spec: RepoSpec, progress: Progress = no_progress) -> AbstractAsyncContextManager[Source]:
        """The repository as it is now, under its name in the catalog."""
        address = self._address(spec)
        if address.is_local:
            return self._open_local(address, spec)
        fetch = self._fetch_mirror if self._settings.mode == "mirror" else self._fetch_shallow
        return fetch(address, spec, progress)

    def _address(self, spec: RepoSpec) -> Address:
        return address_of(spec.url, allow_local=self._settings.allow_local)

    # -- the three ways to obtain a source ----------------------------------------------------------------------------

    @asynccontextmanager
    async def _open_local(self, address: Address, spec: RepoSpec) -> AsyncIterator[Source]:
        source = await asyncio.to_thread(open_local, address.path, spec.branches)
        repository = msgspec.structs.replace(source.repository, name=spec.name, id=repository_id(spec.name))
        yield FetchedSource(source, repository)

    @asynccontextmanager
    async def _fetch_shallow(self, address: Address, spec: RepoSpec, progress: Progress) -> AsyncIterator[Source]:
        refs = await self._ls_remote(address, spec.branches)
        async with self._mirrors.temporary_clone() as (path, lock_fd):
            await self._clone(address, refs, path, (lock_fd,), progress, "--depth=1")
            yield await _open_fetched(address, spec, refs, path)

    @asynccontextmanager
    async def _fetch_mirror(self, address: Address, spec: RepoSpec, progress: Progress) -> AsyncIterator[Source]:
        # Before the lock: an origin that does not answer must not block other nodes on the mirror.
        refs = await self._ls_remote(address, spec.branches)
        async with self._mirrors.open(address, wait_s=self._settings.timeout_s) as mirror:
            # A thread that changes the mirror must end before the lock is released: it cannot be stopped.
            await run_to_end(asyncio.to_thread(mirror.delete_leftovers))
            try:
                source = await self._update_or_clone(address, spec, refs, mirror, progress)
            # Also on cancellation: a killed git leaves temporary files that would count as the mirror's size.
            except BaseException:
                await run_to_end(asyncio.to_thread(mirror.delete_leftovers))
                raise
            mirror.release_write_lock()  # readers do not disturb the next fetch
            # After the lock is released, because deleting a large mirror takes seconds.
            for path in await asyncio.to_thread(self._mirrors.trim):
                log.info("mirror deleted", path=path)
            try:
                yield source
            finally:
                if source.is_damaged:
                    log.warning("mirror damaged", repository=spec.name)
                    mirror.mark_damaged()

    async def _update_or_clone(
        self, address: Address, spec: RepoSpec, refs: Sequence[OriginRef], mirror: Mirror, progress: Progress
    ) -> FetchedSource:
        """The mirror at the commits of `refs`: updated if it is usable, else cloned."""
        if mirror.is_usable:
            try:
                await self._update(address, refs, mirror, progress)
            except FetchFailed as failed:
                if failed.problem is not FetchProblem.DAMAGE:
                    raise failed.error from None
                why = str(failed)
            except FolderTooLarge:
                why = "too large"  # with objects that no branch needs any more: a fresh clone may fit
            else:
                try:
                    return await _open_fetched(address, spec, refs, mirror.path)
                except (Unavailable, NotFound) as error:
                    why = str(error)
            log.warning("mirror unusable, cloning again", repository=spec.name, why=why)
        # Before the clone, so that the disk need not hold both; and its place must be free for the rename.
        await run_to_end(asyncio.to_thread(mirror.discard))
        await self._clone(address, refs, mirror.new_path, mirror.lock_fds, progress)
        mirror.publish()
        return await _open_fetched(address, spec, refs, mirror.path)

    # -- git commands -------------------------------------------------------------------------------------------------

    async def _clone(
        self,
        address: Address,
        refs: Sequence[OriginRef],
        path: str,
        lock_fds: tuple[int, ...],
        progress: Progress,
        *options: str,
    ) -> None:
        """Creates a repository with these commits."""
        hash_name = "sha256" if len(refs[0].commit) == SHA256_CHARS else "sha1"
        init = ("init", "--quiet", "--bare", "--template=", f"--object-format={hash_name}", path)
        try:
            await _run_locally(address, init)
            await self._fetch_refs(address, refs, path, lock_fds, progress, *options)
        except FetchFailed as failed:
            raise failed.error from None
        except FolderTooLarge:
            raise size_error(address, self._settings.repository_bytes_max) from None

    async def _update(self, address: Address, refs: Sequence[OriginRef], mirror: Mirror, progress: Progress) -> None:
        """Brings a mirror to the commits of `refs`. Refs no longer needed are deleted after the fetch, because the
        fetch transfers only what differs from them."""
        git = f"--git-dir={mirror.path}"
        output = await _run_locally(address, (git, "for-each-ref", f"--format={_REF_FORMAT}"))
        lines = (line.partition(" ") for line in output.decode().splitlines())
        present = {ref: commit for commit, _, ref in lines}
        if any(present.get(_mirror_ref(ref)) != ref.commit for ref in refs):
            await self._fetch_refs(address, refs, mirror.path, mirror.lock_fds, progress)
        for ref in set(present) - {_mirror_ref(ref) for ref in refs}:
            await _run_locally(address, (git, "update-ref", "-d", ref))
        if mirror.needs_repack:
            # Others may be reading objects from the packs that a repack deletes; without exclusive use it waits for the
            # next fetch.
            with mirror.try_exclusive() as is_exclusive:
                if is_exclusive:
                    limits = GitLimits(self._settings.timeout_s, lock_fds=mirror.lock_fds)
                    await _run_locally(address, (git, "repack", "-a", "-d", "--quiet"), limits)

    async def _fetch_refs(
        self,
        address: Address,
        refs: Sequence[OriginRef],
        path: str,
        lock_fds: tuple[int, ...],
        progress: Progress,
        *options: str,
    ) -> None:
        settings = self._settings
        limits = GitLimits(settings.timeout_s, path, settings.repository_bytes_max, lock_fds)
        options = ("--progress", "--force", "--no-tags", "--no-write-fetch-head", "--no-show-forced-updates", *options)
        refspecs = [f"+{ref.ref}:{_mirror_ref(ref)}" for ref in refs]

        def fetch(route: OriginRoute) -> Awaitable[bytes]:
            command = (f"--git-dir={path}", "fetch", *options, "--", route.address.url, *refspecs)
            return run_git(route, command, limits, progress)

        await self._with_route(address, fetch, "fetch", settings.timeout_s)

    async def _ls_remote(self, address: Address, branches: Sequence[str]) -> tuple[OriginRef, ...]:
        """The refs that the names mean at the origin. HEAD alone is listed where that is enough: large origins have
        hundreds of thousands of refs."""
        names = check_names(branches)
        try:
            listed = await self._list_refs(address, "--symref", HEAD) if HEAD in names else OriginRefs({})
            # An origin without HEAD can have branches; without any ref it is empty.
            if any(name != HEAD for name in names) or not listed.commits:
                others = await self._list_refs(address, "--heads", "--tags")
                listed = OriginRefs({**others.commits, **listed.commits}, listed.head)
        except FetchFailed as failed:
            raise failed.error from None
        return select_refs(address.url, names, listed)

    async def _list_refs(self, address: Address, *arguments: str) -> OriginRefs:
        options = tuple(word for word in arguments if word.startswith("-"))
        patterns = arguments[len(options) :]
        limits = GitLimits(self._settings.ls_remote_timeout_s)

        def list_refs(route: OriginRoute) -> Awaitable[bytes]:
            return run_git(route, ("ls-remote", "--quiet", *options, "--", route.address.url, *patterns), limits)

        return parse_ls_remote(await self._with_route(address, list_refs, "ls-remote", limits.time_s))

    async def _with_route(
        self, address: Address, run: Callable[[OriginRoute], Awaitable[_T]], what: str, limit_s: float
    ) -> _T:
        """Runs git on the route to an origin. Each problem that another route may solve is tried once."""
        is_redirected = self._routes.is_redirected(address)
        route = await self._routes.route(address)
        # Each kind of problem once, so that an origin which always redirects or rejects cannot keep this running.
        met: set[FetchProblem] = set()
        while True:
            try:
                if route.pinned and not self._supports_pinning:
                    # Once per process, because the check starts git.
                    await require_pinning(route)
                    self._supports_pinning = True
                return await run(route)
            except TimeoutError:
                raise timeout_error(address, what, limit_s) from None
            except FetchFailed as failed:
                if failed.problem in met:
                    raise
                met.add(failed.problem)
                if failed.problem is FetchProblem.REDIRECT:
                    is_redirected, route = False, await self._routes.follow_redirects(address)
                elif failed.problem is FetchProblem.CREDENTIALS and self._credentials.invalidate(route.address):
                    route = await self._routes.route(address)
                elif is_redirected:  # the cached redirect may be outdated: start at the origin again
                    is_redirected, met = False, set()
                    self._routes.invalidate(address)
                    route = await self._routes.route(address)
                else:
                    raise


async def _run_locally(address: Address, arguments: Sequence[str], limits: GitLimits = _LOCAL_LIMITS) -> bytes:
    """Runs a git command that uses no network."""
    try:
        return await run_git(OriginRoute(address), arguments, limits)
    except TimeoutError:
        limit = f"{limits.time_s:.0f} s"
        raise Unavailable(f"git timed out after {limit} on the mirror of {address.url}; check the disk") from None


async def _open_fetched(address: Address, spec: RepoSpec, refs: Sequence[OriginRef], path: str) -> FetchedSource:
    """The fetched commits as a source that names the origin, not the mirror's path."""
    try:
        source = await asyncio.to_thread(GitSource, path, [_mirror_ref(ref) for ref in refs])
    except NotFound:
        raise NotFound(f"a branch or tag of {address.url} is not a commit; choose others") from None
    found = source.repository
    remote = remote_of(address.url)
    templates = url_templates(remote.kind, remote.url)
    commits = [branch.version for branch in found.branches]
    if len(commits) != len(refs):  # git treats a repository without refs as an empty one
        raise Unavailable(f"the mirror of {address.url} lost its branches; retrying later")
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
    return FetchedSource(source, repository)


def _mirror_ref(ref: OriginRef) -> str:
    """The ref of a branch in a mirror: a hash, because a branch `a` that becomes `a/b` could not be stored by name."""
    return _REF_PREFIX + sha256(ref.ref.encode(errors="surrogateescape")).hexdigest()[:32]
