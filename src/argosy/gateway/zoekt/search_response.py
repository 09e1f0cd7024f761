"""Converts a search result to the response of zoekt's JSON API."""

from collections.abc import Mapping

from argosy.gateway.zoekt import wire
from argosy.gateway.zoekt.go_json import text
from argosy.gateway.zoekt.requests import SECOND_NS
from argosy.search import model
from argosy.search.catalog.addresses import repository_id
from argosy.search.query.tree import And, Boost, Not, Or, Query, Symbol, Type

_NO_CHECKSUM = bytes(wire.CHECKSUM_BYTES)


def search_result(answer: model.SearchResult, query: Query, *, is_estimate: bool = False) -> wire.SearchResult:
    """`is_estimate`: the client requested only the number of documents to search."""
    repositories = answer.repositories
    with_symbols = asks_for_symbols(query)
    return wire.SearchResult(
        **_stats(answer, is_estimate=is_estimate),
        files=[_file(each, with_symbols=with_symbols) for each in answer.files],
        repo_urls={text(name): each.file_url_template for name, each in repositories.items()},
        line_fragments={text(name): each.line_fragment_template for name, each in repositories.items()},
        complete=answer.is_complete,
        limits_hit=[bound.value for bound in answer.limits_hit],
        missing=missing(answer.missing),
    )


def stats(answer: model.SearchResult) -> wire.Stats:
    return wire.Stats(**_stats(answer, is_estimate=False))


def missing(found: tuple[model.Missing, ...]) -> list[wire.Missing]:
    return [wire.Missing(text(each.repository), each.why.value, text(each.detail)) for each in found]


def asks_for_symbols(query: Query) -> bool:
    """Zoekt returns the symbol of a match only for `sym:`, and its clients rely on that."""
    match query:
        case Symbol():
            return True
        case And(children) | Or(children):
            return any(asks_for_symbols(child) for child in children)
        case Not(child) | Type(_, child) | Boost(child, _):
            return asks_for_symbols(child)
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


def _file(file: model.FileMatch, *, with_symbols: bool) -> wire.FileMatch:
    return wire.FileMatch(
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


def _chunk(chunk: model.Chunk, *, with_symbols: bool) -> wire.ChunkMatch:
    kept: list[int] | range = range(len(chunk.ranges))
    if chunk.is_clipped:  # clients cut matches from the content by offset
        first, last = chunk.start.offset, chunk.start.offset + len(chunk.content)
        kept = [i for i in kept if first <= chunk.ranges[i].start.offset and chunk.ranges[i].end.offset <= last]
    symbols = [_symbol(chunk.symbols[i]) for i in kept] if with_symbols and chunk.symbols else None
    return wire.ChunkMatch(
        debug_score=chunk.explanation,
        content=chunk.content,
        ranges=[wire.Range(_location(chunk.ranges[i].start), _location(chunk.ranges[i].end)) for i in kept],
        symbol_info=symbols,
        file_name=chunk.is_file_name,
        content_start=_location(chunk.start),
        score=chunk.score,
        best_line_match=chunk.best_line,
    )


def _location(at: model.Location) -> wire.Location:
    return wire.Location(at.offset, at.line, at.column)


def _symbol(symbol: model.SymbolInfo | None) -> wire.Symbol | None:
    return wire.Symbol(symbol.name, symbol.kind, symbol.parent, symbol.parent_kind) if symbol else None


def _line(line: model.Line, *, with_symbols: bool) -> wire.LineMatch:
    content, end, fragments = line.content, line.end, line.fragments
    if line.is_clipped:
        end = line.start + len(content)
        fragments = tuple(each for each in fragments if 0 <= each.line_offset <= len(content) - each.length)
    elif line.start + len(content) < end:
        content += b"\n"  # zoekt's lines include their newline, ours do not
    return wire.LineMatch(
        line=content,
        line_start=line.start,
        line_end=end,
        line_number=line.number,
        before=_joined(line.before),
        after=_joined(line.after),
        file_name=line.is_file_name,
        score=line.score,
        debug_score=line.explanation,
        line_fragments=[
            wire.LineFragment(
                _symbol(each.symbol) if with_symbols else None, each.line_offset, each.offset, each.length
            )
            for each in fragments
        ],
    )


def _joined(lines: tuple[bytes, ...]) -> bytes | None:
    return b"".join(line + b"\n" for line in lines) if lines else None
