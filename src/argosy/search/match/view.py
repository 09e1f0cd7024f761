"""A hit turned into something to look at."""

import numpy as np

from argosy.search.documents import SkipReason
from argosy.search.index.segment import Segment, frozen
from argosy.search.kernels.spans import score_matches
from argosy.search.match.excerpts import Cursor, Match
from argosy.search.match.hits import Marks
from argosy.search.match.rank import name_points
from argosy.search.match.shortlist import Hit
from argosy.search.match.telling import chunks, lines, name_chunk, name_line
from argosy.search.model import Chunk, FileMatch, Form, Line, Options, SymbolInfo
from argosy.search.symbols import KINDS

_SKIPS = tuple(SkipReason)


def file_match(hit: Hit, shown: int, options: Options) -> FileMatch:
    """The file with so many of its matches."""
    segment = hit.index.parts[hit.part].segment
    repository = hit.index.repository
    mask = int(hit.index.parts[hit.part].branches[hit.document])
    branches = tuple(branch for i, branch in enumerate(repository.branches) if mask >> i & 1)
    told_chunks, told_lines = _told(hit, segment, shown, options)
    return FileMatch(
        repository=repository.name,
        path=segment.path(hit.document).decode("utf-8", "surrogateescape"),
        language=segment.languages[segment.table.languages[hit.document]],
        branches=tuple(branch.name for branch in branches),
        version=branches[0].version if branches else "",
        score=hit.score,
        match_count=hit.match_count,
        chunks=told_chunks,
        lines=told_lines,
        content=content_of(segment, hit.document) if options.with_content else None,
        repository_id=repository.id,
        repository_rank=repository.rank,
        skipped=_SKIPS[segment.table.skips[hit.document]].value,
    )


def content_of(segment: Segment, document: int) -> bytes:
    start, end = int(segment.content.starts[document]), int(segment.content.starts[document + 1]) - 1
    return segment.content.data[start:end].tobytes()


def _told(hit: Hit, segment: Segment, shown: int, options: Options) -> tuple[tuple[Chunk, ...], tuple[Line, ...]]:
    if options.form is Form.COUNT:
        return (), ()
    if hit.is_name:
        name, matches = segment.path(hit.document), _name_matches(hit, segment)[:shown]
        if options.form is Form.CHUNKS:
            return (name_chunk(name, matches),), ()
        return (), (name_line(name, matches),)
    text, found = content_of(segment, hit.document), _matches(hit, segment, shown)
    cursor = _cursor(text, segment, hit.document)
    if options.form is Form.CHUNKS:
        return chunks(text, cursor, found, lambda symbol: symbol_info(segment, symbol), options), ()
    return (), lines(text, cursor, found, lambda symbol: symbol_info(segment, symbol), options)


def _cursor(text: bytes, segment: Segment, document: int) -> Cursor:
    """A cursor that knows the line at the start of every block."""
    content = segment.content
    first, last = np.searchsorted(content.block_docs, [document, document + 1])
    marks = content.block_starts[first:last] - content.starts[document]
    return Cursor(text, marks.tolist(), content.block_lines[first:last].tolist())


def _matches(hit: Hit, segment: Segment, shown: int) -> list[Match]:
    """The first matches in the content, by their place in the document."""
    starts, ends, symbols = hit.starts[:shown], hit.ends[:shown], segment.symbols
    points, found = score_matches(
        segment.content.data, frozen(starts), frozen(ends), symbols.starts, symbols.lengths, symbols.points
    )
    boosted = points if hit.boosts is None else points * hit.boosts[:shown]
    base = int(segment.content.starts[hit.document])
    rows = zip(starts.tolist(), ends.tolist(), boosted.tolist(), found.tolist(), strict=True)
    return [Match(start - base, end - base, worth, symbol) for start, end, worth, symbol in rows]


def _name_matches(hit: Hit, segment: Segment) -> list[Match]:
    if len(hit.starts) == 0:
        return []
    document = np.array([hit.document], np.uint32)
    marks = Marks(hit.starts, hit.ends, hit.boosts, document, np.array([0, len(hit.starts)]))
    base = int(segment.names.starts[hit.document])
    rows = zip(hit.starts.tolist(), hit.ends.tolist(), name_points(segment, marks).tolist(), strict=True)
    return [Match(start - base, end - base, worth) for start, end, worth in rows]


def symbol_info(segment: Segment, symbol: int) -> SymbolInfo | None:
    if symbol < 0:
        return None
    parent = int(segment.symbols.parents[symbol])
    name, kind = _symbol(segment, symbol)
    above, above_kind = _symbol(segment, parent) if parent >= 0 else ("", "")
    return SymbolInfo(name, kind, above, above_kind)


def _symbol(segment: Segment, symbol: int) -> tuple[str, str]:
    start = int(segment.symbols.starts[symbol])
    name = segment.content.data[start : start + int(segment.symbols.lengths[symbol])].tobytes()
    return name.decode("utf-8", "replace"), KINDS[segment.symbols.kinds[symbol]]
