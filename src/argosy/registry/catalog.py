"""The repository catalog: which repositories should be searchable, and what is known from their last indexing.

This is desired state; the current holder of a repository is a lease and is not stored here.
"""

from dataclasses import replace

from argosy.base.errors import Conflict, Invalid
from argosy.registry import crud
from argosy.registry.crud import check_key, check_unique, put_row, require
from argosy.registry.rows import RepositoryRow
from argosy.registry.tables import REPOSITORIES
from argosy.registry.transaction import Get, Now, TransactionBody, find, get, now, read_many, transaction

# Bounds on what an operator can ask of a fleet with one row; far above what is in use.
BRANCHES_MAX = 64
REPLICAS_MAX = 8
BIDS_MAX = 100
URL_CHARS_MAX = 1000
ERROR_CHARS_MAX = 1000


@transaction
def add(
    repo_id: str,
    url: str,
    *,
    branches: tuple[str, ...] = (),
    is_pinned: bool = False,
    replicas: int = 0,
    max_bids: int | None = None,
) -> TransactionBody[RepositoryRow]:
    """Adds a repository. Raises `Conflict` if its id or its url is already in the catalog."""
    check_key(REPOSITORIES, (repo_id,))
    _check_name(repo_id)
    clock, existing = yield from read_many(Now(), Get(REPOSITORIES, (repo_id,)))
    if existing is not None:
        raise Conflict(f"repository {repo_id!r} is already in the catalog")
    repository = RepositoryRow(repo_id, url, branches, is_pinned, replicas, max_bids, added_at=clock)
    _check(repository)
    yield from check_unique(REPOSITORIES, repository)
    return (yield from put_row(REPOSITORIES, repository))


@transaction
def update(repository: RepositoryRow) -> TransactionBody[RepositoryRow]:
    """Stores a repository that was read before. Raises `Conflict` if it has changed since."""
    _check(repository)
    # `put` would take it for a new row and skip the checks of `add`.
    if repository.version == 0:
        raise Invalid(f"repository {repository.repo_id!r} was never read; call add first")
    return (yield from crud.put(REPOSITORIES, repository))


@transaction
def record_indexed(repo_id: str, *, commit_hash: str, footprint_bytes: int) -> TransactionBody[RepositoryRow]:
    """Records the result of an indexing, whatever else has changed in the row."""
    if not commit_hash or footprint_bytes < 0:
        raise Invalid(f"an index has a commit and a size, not {commit_hash!r} and {footprint_bytes}")
    clock = yield from now()
    repository = yield from require(REPOSITORIES, repo_id)
    # The row is read and written in one transaction, so an operator's change at the same time is not overwritten.
    indexed = replace(repository, footprint_bytes=footprint_bytes, last_commit=commit_hash, last_indexed_at=clock)
    # `failures` counts those since the last success.
    return (yield from put_row(REPOSITORIES, replace(indexed, failures=0, last_error=None, last_failed_at=None)))


@transaction
def record_index_failure(repo_id: str, *, error: str) -> TransactionBody[RepositoryRow]:
    """Records why indexing failed. The text is shown to users and must contain no secret."""
    clock = yield from now()
    repository = yield from require(REPOSITORIES, repo_id)
    failures = repository.failures + 1
    # The text comes from git or a network and may be of any length.
    failed = replace(repository, failures=failures, last_error=error[:ERROR_CHARS_MAX], last_failed_at=clock)
    return (yield from put_row(REPOSITORIES, failed))


@transaction
def pin(repo_id: str, is_pinned: bool) -> TransactionBody[RepositoryRow]:
    """A pinned repository is never evicted from memory."""
    repository = yield from require(REPOSITORIES, repo_id)
    return (yield from put_row(REPOSITORIES, replace(repository, is_pinned=is_pinned)))


@transaction
def request_reindex(repo_id: str) -> TransactionBody[RepositoryRow]:
    """Requests a full reindex by the holders, whether or not there are new commits."""
    clock = yield from now()
    repository = yield from require(REPOSITORIES, repo_id)
    return (yield from put_row(REPOSITORIES, replace(repository, reindex_requested_at=clock)))


@transaction
def record_push(repo_id: str) -> TransactionBody[RepositoryRow]:
    """Records a push notification, so that the holders check the origin now instead of at their next interval."""
    clock = yield from now()
    repository = yield from require(REPOSITORIES, repo_id)
    return (yield from put_row(REPOSITORIES, replace(repository, pushed_at=clock)))


@transaction
def remove(repo_id: str, *, expected_version: int | None = None) -> TransactionBody[bool]:
    """Removes a repository. Returns False if there was none."""
    return (yield from crud.delete(REPOSITORIES, repo_id, expected_version=expected_version))


@transaction
def read(repo_id: str) -> TransactionBody[RepositoryRow | None]:
    check_key(REPOSITORIES, (repo_id,))
    return (yield from get(REPOSITORIES, repo_id))


@transaction
def read_by_url(url: str) -> TransactionBody[RepositoryRow | None]:
    rows = yield from find(REPOSITORIES, "url", url, limit=1)
    return rows[0] if rows else None


@transaction
def everything() -> TransactionBody[list[RepositoryRow]]:
    """The whole catalog, oldest first: the units a fleet should hold, with their footprints, bids and replicas."""
    return (yield from crud.every(REPOSITORIES))


def _check_name(name: str) -> None:
    """A name is part of URLs and is printed on terminals."""
    if not name.isprintable() or any(part in ("", ".", "..") for part in name.split("/")):
        raise Invalid(
            f"invalid repository name {name!r}; use printable characters, like owner/name, "
            "in which no part between slashes is empty, '.' or '..'"
        )


def _check(repository: RepositoryRow) -> None:
    if not 1 <= len(repository.url) <= URL_CHARS_MAX:
        raise Invalid(f"a repository's url has 1 to {URL_CHARS_MAX} characters, not {len(repository.url)}")
    if len(repository.branches) > BRANCHES_MAX or not all(repository.branches):
        raise Invalid(f"a repository has at most {BRANCHES_MAX} branches, each with a name")
    if not 0 <= repository.replicas <= REPLICAS_MAX:
        raise Invalid(f"replicas are 0 to {REPLICAS_MAX}, not {repository.replicas}")
    if repository.max_bids is not None and not 1 <= repository.max_bids <= BIDS_MAX:
        raise Invalid(f"max_bids is 1 to {BIDS_MAX}, not {repository.max_bids}")
    if repository.footprint_bytes is not None and repository.footprint_bytes < 0:
        raise Invalid(f"a footprint is at least 0 bytes, not {repository.footprint_bytes}")
