"""zoekt's second JSON format: the content of its search page as plain text, for editors and scripts.

A query with only repository conditions lists repositories instead of files. Field names and their order are zoekt's.
"""

from collections.abc import Callable
from urllib.parse import urlencode

import msgspec

from argosy.base.errors import Invalid
from argosy.gateway.zoekt import wire
from argosy.gateway.zoekt.go_compat import decode_text, evaluate_template, host_file_url, text, time_text
from argosy.gateway.zoekt.requests import SECOND_NS
from argosy.gateway.zoekt.responses import missing, stats, total_stats
from argosy.search.fleet.model import ListResult, RepoListing
from argosy.search.model import FileMatch, Line, Repository, SearchResult
from argosy.search.query.tree import And, Boost, Not, Or, Query, Repo, ResultKind, Type

# The default and the bounds of zoekt's pages.
FILES = 50  # default number of files
FILES_MAX = 10_000
CONTEXT_LINES_MAX = 10


class Last(msgspec.Struct, frozen=True, rename="pascal"):
    query: str
    num: int
    ctx: int
    auto_focus: bool = True
    debug: bool = False


class PageFragment(msgspec.Struct, frozen=True, rename="pascal"):
    pre: str
    match: str
    post: str


class PageMatch(msgspec.Struct, frozen=True, rename="pascal", omit_defaults=True):
    url: str = msgspec.field(name="URL")
    file_name: str
    line_num: int
    fragments: list[PageFragment]
    before: str = ""
    after: str = ""


class PageFile(msgspec.Struct, frozen=True, rename="pascal"):
    file_name: str
    repo: str
    result_id: str = msgspec.field(name="ResultID")
    language: str
    duplicate_id: str = msgspec.field(name="DuplicateID")
    branches: tuple[str, ...]
    matches: list[PageMatch]
    url: str = msgspec.field(name="URL")


class PageResult(msgspec.Struct, frozen=True, rename="pascal"):
    last: Last
    query_str: str
    query: str
    stats: wire.ZoektStats
    duration: int
    file_matches: list[PageFile]
    complete: bool
    missing: list[wire.ZoektMissing]


class PageBranch(msgspec.Struct, frozen=True, rename="pascal"):
    name: str
    version: str
    url: str = msgspec.field(name="URL")


class PageRepo(msgspec.Struct, frozen=True, rename="pascal"):
    name: str
    url: str = msgspec.field(name="URL")
    index_time: str
    branches: list[PageBranch]
    files: int
    size: int
    memory_size: int


class PageRepos(msgspec.Struct, frozen=True, rename="pascal"):
    last: Last
    stats: wire.ZoektRepoStats
    repos: list[PageRepo]
    complete: bool
    missing: list[wire.ZoektMissing]


class Page(msgspec.Struct, frozen=True, omit_defaults=True):
    """A page holds one of the two."""

    result: PageResult | None = None
    repos: PageRepos | None = None


def is_repository_query(query: Query) -> bool:
    """Whether the query has only conditions on repositories, or `type:repo`."""
    return (isinstance(query, Type) and query.kind is ResultKind.REPO) or _has_only_repo_conditions(query)


def _has_only_repo_conditions(query: Query) -> bool:
    match query:
        case Repo():
            return True
        case And(children) | Or(children):
            return all(_has_only_repo_conditions(child) for child in children)
        case Not(child) | Type(_, child) | Boost(child, _):
            return _has_only_repo_conditions(child)
    return False


def result_page(answer: SearchResult, last: Last, shown: str) -> Page:
    """`shown` is the query as parsed."""
    first_seen: dict[bytes, str] = {}
    files = [_file(each, answer.repositories.get(each.repository), last, first_seen) for each in answer.files]
    result = PageResult(
        last=last,
        query_str=last.query,
        query=shown,
        stats=stats(answer),
        duration=round(answer.stats.duration_s * SECOND_NS),
        file_matches=files,
        complete=answer.is_complete,
        missing=missing(answer.missing),
    )
    return Page(result=result)


def repos_page(listing: ListResult, last: Last, order: str) -> Page:
    entries = _sort_entries(listing.entries, order)
    # The totals are those of all repositories, also of those that are not shown.
    shown = entries[: last.num] if last.num else entries
    repos = PageRepos(
        last=last,
        stats=total_stats(entries),
        repos=[_repo(entry) for entry in shown],
        complete=not listing.missing,
        missing=missing(listing.missing),
    )
    return Page(repos=repos)


_ORDERS: dict[str, Callable[[RepoListing], str | int | float]] = {
    "name": lambda entry: entry.repository.name,
    "size": lambda entry: entry.content_bytes,
    "ram": lambda entry: entry.memory_bytes,
    "time": lambda entry: entry.indexed_at,
}


def _sort_entries(entries: tuple[RepoListing, ...], order: str) -> list[RepoListing]:
    key = _ORDERS.get(order.removeprefix("rev") or "name")
    if key is None:
        raise Invalid(f"invalid order {order!r}; use one of {', '.join(_ORDERS)}, with the prefix 'rev' for descending")
    return sorted(entries, key=key, reverse=order.startswith("rev"))


def _repo(entry: RepoListing) -> PageRepo:
    repository = entry.repository
    branches = [
        PageBranch(
            each.name, each.version, evaluate_template(repository.commit_url_template, {"Version": each.version})
        )
        for each in repository.branches
    ]
    return PageRepo(
        name=text(repository.name),
        url=repository.url,
        index_time=time_text(entry.indexed_at),
        branches=branches,
        files=entry.documents,
        size=entry.content_bytes,
        memory_size=entry.memory_bytes,
    )


def _file(file: FileMatch, repository: Repository | None, last: Last, first_seen: dict[bytes, str]) -> PageFile:
    path, name = text(file.path), text(file.repository)
    result_id = f"{name}:{path}"
    # zoekt folds files with identical content into the first of them, by checksum.
    known = first_seen.setdefault(file.checksum, result_id) if file.checksum else result_id
    return PageFile(
        file_name=path,
        repo=name,
        result_id=result_id,
        language=file.language,
        duplicate_id="" if known == result_id else known,
        branches=file.branches,
        matches=[_match(line, file, repository, last) for line in file.lines],
        url=_url(file, repository, last, 0),
    )


def _match(line: Line, file: FileMatch, repository: Repository | None, last: Last) -> PageMatch:
    return PageMatch(
        url=_url(file, repository, last, line.number),
        file_name=text(file.path),
        line_num=line.number,
        fragments=_fragments(line),
        before=decode_text(b"\n".join(line.before)),
        after=decode_text(b"\n".join(line.after)),
    )


def _fragments(line: Line) -> list[PageFragment]:
    """The line split around its matches; the last fragment has the rest of the line."""
    content, at = line.content, 0
    # A clipped line may lack the text of some of its matches, which are left out.
    result: list[PageFragment] = []
    shown = [each for each in line.fragments if 0 <= each.line_offset <= len(content) - each.length]
    for i, each in enumerate(shown):
        end = each.line_offset + each.length
        post = content[end:] if i == len(shown) - 1 else b""
        pieces = (content[at : each.line_offset], content[each.line_offset : end], post)
        result.append(PageFragment(*map(decode_text, pieces)))
        at = end
    return result


def _url(file: FileMatch, repository: Repository | None, last: Last, line: int) -> str:
    """The URL at the code host if it has file pages, else here."""
    branch = file.branches[0] if file.branches else ""
    if repository is not None and repository.file_url_template:
        return host_file_url(
            repository.file_url_template,
            repository.line_fragment_template,
            version=file.version,
            path=file.path,
            branch=branch,
            line=line,
        )
    params = {"r": file.repository, "f": file.path, "q": last.query, "num": str(last.num), "b": branch}
    return f"print?{urlencode(params, errors='surrogateescape')}" + (f"#l{line}" if line else "")
