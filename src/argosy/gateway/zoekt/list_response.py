"""Converts a repository list to the response of zoekt's JSON API."""

from collections.abc import Iterable

from argosy.base.errors import Invalid
from argosy.gateway.zoekt import wire
from argosy.gateway.zoekt.go_json import text, time_text
from argosy.gateway.zoekt.search_response import missing
from argosy.search.catalog.addresses import repository_id
from argosy.search.fleet.model import ListResult, RepoListing
from argosy.search.model import Repository

REPOS = 0
REPOS_MAP = 2


def repo_list(listing: ListResult, *, field: int, version: str) -> wire.RepoList:
    """`field` is the list format the client requested; `version` is that of this server."""
    entries = listing.entries
    return wire.RepoList(
        repos=[_entry(each, version) for each in entries] if field == REPOS else [],
        repos_map={_id(each.repository): _minimal(each) for each in entries} if field == REPOS_MAP else {},
        crashes=len(listing.missing),
        stats=total(entries),
        complete=not listing.missing,
        missing=missing(listing.missing),
    )


def check_field(field: int) -> int:
    if field not in (REPOS, REPOS_MAP):
        raise Invalid(f"invalid Opts.Field {field}; use {REPOS} (Repos) or {REPOS_MAP} (ReposMap)")
    return field


def total(entries: Iterable[RepoListing]) -> wire.RepoStats:
    """Totals over all repositories."""
    found = list(entries)
    return wire.RepoStats(
        repos=len(found),
        shards=len(found),
        documents=sum(each.documents for each in found),
        index_bytes=sum(each.memory_bytes for each in found),
        content_bytes=sum(each.content_bytes for each in found),
        new_lines_count=sum(each.lines for each in found),
        default_branch_new_lines_count=sum(each.lines for each in found if _has_one_branch(each)),
        other_branches_new_lines_count=0,
    )


def _entry(entry: RepoListing, version: str) -> wire.RepoListEntry:
    repository = entry.repository
    number = _id(repository)
    metadata = wire.IndexMetadata(
        index_time=time_text(entry.indexed_at),
        language_map=entry.languages,
        zoekt_version=version,
        id=f"{number:08x}-{int(entry.indexed_at):x}",
    )
    return wire.RepoListEntry(_repository(entry, number), metadata, _stats(entry))


def _repository(entry: RepoListing, number: int) -> wire.Repository:
    told = entry.repository
    return wire.Repository(
        id=number,
        name=text(told.name),
        url=told.url,
        metadata=dict(told.metadata),
        source=text(told.source),
        branches=_branches(told),
        commit_url_template=told.commit_url_template,
        file_url_template=told.file_url_template,
        line_fragment_template=told.line_fragment_template,
        raw_config={name: "1" if is_set else "0" for name, is_set in told.flags.items()},
        rank=told.rank,
        has_symbols=entry.has_symbols,
        latest_commit_date=time_text(told.latest_commit_s),
    )


def _stats(entry: RepoListing) -> wire.RepoStats:
    """Statistics of one repository; the count of repositories is only in the totals."""
    return wire.RepoStats(
        repos=0,
        shards=1,
        documents=entry.documents,
        index_bytes=entry.memory_bytes,
        content_bytes=entry.content_bytes,
        new_lines_count=entry.lines,
        default_branch_new_lines_count=entry.lines if _has_one_branch(entry) else 0,
        other_branches_new_lines_count=0,
    )


def _has_one_branch(entry: RepoListing) -> bool:
    """Lines are counted per index, so their branch is known only if there is exactly one."""
    return len(entry.repository.branches) <= 1


def _minimal(entry: RepoListing) -> wire.MinimalRepoListEntry:
    return wire.MinimalRepoListEntry(entry.has_symbols, _branches(entry.repository), int(entry.indexed_at))


def _branches(repository: Repository) -> list[wire.RepositoryBranch]:
    return [wire.RepositoryBranch(branch.name, branch.version) for branch in repository.branches]


def _id(repository: Repository) -> int:
    return repository.id or repository_id(repository.name)
