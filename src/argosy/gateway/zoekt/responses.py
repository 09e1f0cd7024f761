"""Converts search results and repository lists to the responses of zoekt's JSON API."""

from collections.abc import Iterable, Mapping

from argosy.base.errors import Invalid
from argosy.gateway.zoekt import wire
from argosy.gateway.zoekt.go_compat import text, time_text
from argosy.gateway.zoekt.requests import SECOND_NS
from argosy.search import model
from argosy.search.catalog.addresses import repository_id
from argosy.search.fleet.model import ListResult, RepoListing
from argosy.search.model import Repository
from argosy.search.query.tree import And, Boost, Not, Or, Query, Symbol, Type

_NO_CHECKSUM = bytes(wire.CHECKSUM_BYTES)


def search_result(answer: model.SearchResult, query: Query, *, is_estimate: bool = False) -> wire.ZoektSearchResult:
    """`is_estimate`: the client requested only the number of documents to search."""
    repositories = answer.repositories
    with_symbols = has_symbol_condition(query)
    return wire.ZoektSearchResult(
        **_stats(answer, is_estimate=is_estimate),
        files=[_file(each, with_symbols=with_symbols) for each in answer.files],
        repo_urls={text(name): each.file_url_template for name, each in repositories.items()},
        # Of the repositories of the files that are shown; the merge has dropped all others.
        line_fragments={text(name): each.line_fragment_template for name, each in repositories.items()},
        complete=answer.is_complete,
        limits_hit=[each.value for each in answer.limits_hit],
        missing=missing(answer.missing),
    )


def stats(answer: model.SearchResult) -> wire.ZoektStats:
    return wire.ZoektStats(**_stats(answer, is_estimate=False))


def missing(found: tuple[model.Missing, ...]) -> list[wire.ZoektMissing]:
    return [wire.ZoektMissing(text(each.repository), each.why.value, text(each.detail)) for each in found]


def has_symbol_condition(query: Query) -> bool:
    """Whether the query has `sym:`. zoekt returns the symbol of a match only then, and its clients rely on that."""
    match query:
        case Symbol():
            return True
        case And(children) | Or(children):
            return any(has_symbol_condition(child) for child in children)
        case Not(child) | Type(_, child) | Boost(child, _):
            return has_symbol_condition(child)
    return False


def _stats(answer: model.SearchResult, *, is_estimate: bool) -> Mapping[str, int]:
    found = answer.stats
    duration = round(found.duration_s * SECOND_NS)
    wait = round(found.wait_s * SECOND_NS)
    return {
        "content_bytes_loaded": found.content_bytes,
        "index_bytes_loaded": found.index_bytes,
        "crashes": len(answer.missing),  # zoekt's indication that some repositories were not searched
        "duration": duration,
        "file_count": found.files,
        "shard_files_considered": found.files_considered if is_estimate else 0,
        "files_considered": found.files_considered,
        "files_loaded": found.files_loaded,
        "files_skipped": found.files_skipped,
        "shards_scanned": found.indexes_searched,
        "shards_skipped": found.indexes_skipped,
        "shards_skipped_filter": found.indexes_excluded,
        "match_count": found.matches,
        "ngram_matches": found.matches,  # candidates that were rejected are not counted here
        "ngram_lookups": found.ngram_lookups,
        "wait": wait,
        "match_tree_search": max(0, duration - wait),
        "regexps_considered": found.regexps_considered,
    }


def _file(file: model.FileMatch, *, with_symbols: bool) -> wire.ZoektFileMatch:
    return wire.ZoektFileMatch(
        file_name=text(file.path),
        repository=text(file.repository),
        version=file.version,
        language=file.language,
        debug=file.explanation,
        branches=file.branches,
        line_matches=[_line(each, with_symbols=with_symbols) for each in file.lines],
        chunk_matches=[_chunk(each, with_symbols=with_symbols) for each in file.chunks],
        content=file.content or b"",
        checksum=file.checksum or _NO_CHECKSUM,
        score=file.score,
        repository_priority=float(file.repository_rank),
        repository_id=file.repository_id or repository_id(file.repository),
    )


def _chunk(chunk: model.Chunk, *, with_symbols: bool) -> wire.ZoektChunkMatch:
    shown: list[int] | range = range(len(chunk.ranges))
    if chunk.is_clipped:  # clients cut matches from the content by offset
        first, last = chunk.start.offset, chunk.start.offset + len(chunk.content)
        shown = [i for i in shown if first <= chunk.ranges[i].start.offset and chunk.ranges[i].end.offset <= last]
    symbols = [_symbol(chunk.symbols[i]) for i in shown] if with_symbols and chunk.symbols else None
    return wire.ZoektChunkMatch(
        debug_score=chunk.explanation,
        content=chunk.content,
        ranges=[wire.ZoektRange(_location(chunk.ranges[i].start), _location(chunk.ranges[i].end)) for i in shown],
        symbol_info=symbols,
        file_name=chunk.is_file_name,
        content_start=_location(chunk.start),
        score=chunk.score,
        best_line_match=chunk.best_line,
    )


def _location(at: model.Location) -> wire.ZoektLocation:
    return wire.ZoektLocation(at.offset, at.line, at.column)


def _symbol(symbol: model.SymbolInfo | None) -> wire.ZoektSymbol | None:
    return wire.ZoektSymbol(symbol.name, symbol.kind, symbol.parent, symbol.parent_kind) if symbol else None


def _line(line: model.Line, *, with_symbols: bool) -> wire.ZoektLineMatch:
    content, end, fragments = line.content, line.end, line.fragments
    if line.is_clipped:
        end = line.start + len(content)
        fragments = tuple(each for each in fragments if 0 <= each.line_offset <= len(content) - each.length)
    elif line.start + len(content) < end:
        content += b"\n"  # zoekt's lines include their newline, ours do not
    return wire.ZoektLineMatch(
        line=content,
        line_start=line.start,
        line_end=end,
        line_number=line.number,
        before=_join_lines(line.before),
        after=_join_lines(line.after),
        file_name=line.is_file_name,
        score=line.score,
        debug_score=line.explanation,
        line_fragments=[
            wire.ZoektLineFragment(
                _symbol(each.symbol) if with_symbols else None, each.line_offset, each.offset, each.length
            )
            for each in fragments
        ],
    )


def _join_lines(lines: tuple[bytes, ...]) -> bytes | None:
    return b"".join(line + b"\n" for line in lines) if lines else None


# -- repository lists --------------------------------------------------------------------------------------------------

# The values of `Opts.Field`; zoekt rejects 1.
REPOS = 0
REPOS_MAP = 2


def repo_list(listing: ListResult, *, field: int, version: str) -> wire.ZoektRepoList:
    """`field` is the list format the client requested; `version` is that of this server."""
    entries = listing.entries
    return wire.ZoektRepoList(
        repos=[_repo_entry(each, version) for each in entries] if field == REPOS else [],
        repos_map={_id(each.repository): _minimal(each) for each in entries} if field == REPOS_MAP else {},
        crashes=len(listing.missing),
        stats=total_stats(entries),
        complete=not listing.missing,
        missing=missing(listing.missing),
    )


def check_field(field: int) -> int:
    if field not in (REPOS, REPOS_MAP):
        raise Invalid(f"invalid Opts.Field {field}; use {REPOS} (Repos) or {REPOS_MAP} (ReposMap)")
    return field


def total_stats(entries: Iterable[RepoListing]) -> wire.ZoektRepoStats:
    """Totals over all repositories."""
    found = list(entries)
    return wire.ZoektRepoStats(
        repos=len(found),
        shards=len(found),
        documents=sum(each.documents for each in found),
        index_bytes=sum(each.memory_bytes for each in found),
        content_bytes=sum(each.content_bytes for each in found),
        new_lines_count=sum(each.lines for each in found),
        # Lines are not counted by branch, so only repositories with one branch have a known count.
        default_branch_new_lines_count=sum(each.lines for each in found if _has_one_branch(each)),
        other_branches_new_lines_count=0,
    )


def _repo_entry(entry: RepoListing, version: str) -> wire.ZoektRepoListEntry:
    repository = entry.repository
    number = _id(repository)
    metadata = wire.ZoektIndexMetadata(
        index_time=time_text(entry.indexed_at),
        language_map=entry.languages,
        zoekt_version=version,
        id=f"{number:08x}-{int(entry.indexed_at):x}",
    )
    return wire.ZoektRepoListEntry(_repository(entry, number), metadata, _repo_stats(entry))


def _repository(entry: RepoListing, number: int) -> wire.ZoektRepository:
    repository = entry.repository
    return wire.ZoektRepository(
        id=number,
        name=text(repository.name),
        url=repository.url,
        metadata=dict(repository.metadata),
        source=text(repository.source),
        branches=_branches(repository),
        commit_url_template=repository.commit_url_template,
        file_url_template=repository.file_url_template,
        line_fragment_template=repository.line_fragment_template,
        raw_config={name: "1" if is_set else "0" for name, is_set in repository.flags.items()},
        rank=repository.rank,
        has_symbols=entry.has_symbols,
        latest_commit_date=time_text(repository.latest_commit_s),
    )


def _repo_stats(entry: RepoListing) -> wire.ZoektRepoStats:
    """Statistics of one repository; as in zoekt, the count of repositories is only in the totals."""
    return wire.ZoektRepoStats(
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


def _minimal(entry: RepoListing) -> wire.ZoektMinimalRepoListEntry:
    return wire.ZoektMinimalRepoListEntry(entry.has_symbols, _branches(entry.repository), int(entry.indexed_at))


def _branches(repository: Repository) -> list[wire.ZoektRepositoryBranch]:
    return [wire.ZoektRepositoryBranch(branch.name, branch.version) for branch in repository.branches]


def _id(repository: Repository) -> int:
    return repository.id or repository_id(repository.name)
