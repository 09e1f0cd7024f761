"""A hit turned into something to look at."""

from itertools import pairwise

import numpy as np

from argosy.search.documents import SkipReason
from argosy.search.index.segment import I64, U32, Segment, frozen
from argosy.search.kernels.checksums import TABLES, crc64
from argosy.search.kernels.places import LAST_LINE, LINE, places
from argosy.search.kernels.spans import score_matches
from argosy.search.match.excerpts import Match
from argosy.search.match.explaining import file_explanation, match_explanation, name_explanation
from argosy.search.match.hits import Marks
from argosy.search.match.rank import name_points
from argosy.search.match.shortlist import Hit
from argosy.search.match.telling import Explain, Told, chunks, lines, name_chunk, name_line
from argosy.search.model import Chunk, FileMatch, Form, Line, Options, SymbolInfo
from argosy.search.symbols.kinds import KINDS

_SKIPS = tuple(reason.value for reason in SkipReason)
_NEWLINE = ord("\n")


def file_match(hit: Hit, shown: int, options: Options) -> FileMatch:
    """The file with so many of its matches."""
    part, repository = hit.index.parts[hit.part], hit.index.repository
    segment, mask = part.segment, int(part.branches[hit.document])
    branches = [branch for i, branch in enumerate(repository.branches) if mask >> i & 1]
    told_chunks, told_lines = _told(hit, segment, shown, options)
    return FileMatch(
        repository=repository.name,
        path=segment.path(hit.document).decode("utf-8", "surrogateescape"),
        language=segment.languages[segment.table.languages[hit.document]],
        branches=tuple([branch.name for branch in branches]),
        version=branches[0].version if branches else "",
        score=hit.score,
        match_count=hit.match_count,
        chunks=told_chunks,
        lines=told_lines,
        content=content_of(segment, hit.document) if options.with_content else None,
        checksum=checksum_of(segment, hit.document) if options.with_checksum else b"",
        repository_id=repository.id,
        repository_rank=repository.rank,
        skipped=_SKIPS[segment.table.skips[hit.document]],
        explanation=file_explanation(hit, is_bm25=options.use_bm25) if options.explain_scores else "",
    )


def content_of(segment: Segment, document: int) -> bytes:
    start, end = _bounds(segment, document)
    return segment.content.data[start:end].tobytes()


def checksum_of(segment: Segment, document: int) -> bytes:
    """CRC-64/ISO of the content, the highest byte first."""
    return int(crc64(segment.content.data, *_bounds(segment, document), TABLES)).to_bytes(8, "big")


def _bounds(segment: Segment, document: int) -> tuple[int, int]:
    starts = segment.content.starts
    return int(starts[document]), int(starts[document + 1]) - 1


def _told(hit: Hit, segment: Segment, shown: int, options: Options) -> tuple[tuple[Chunk, ...], tuple[Line, ...]]:
    if options.form is Form.COUNT:
        return (), ()
    if hit.is_name:
        name, named = segment.path(hit.document), _name_matches(hit, segment)[:shown]
        explain = _explainer(name_explanation, options)
        if options.form is Form.CHUNKS:
            return (name_chunk(name, named, explain),), ()
        return (), (name_line(name, named, explain),)
    told = Told(
        text=memoryview(segment.content.data),  # type: ignore[arg-type]
        start=int(segment.content.starts[hit.document]),
        symbol_of=lambda symbol: symbol_info(segment, symbol),
        explain=_explainer(lambda match: match_explanation(segment, match), options),
    )
    if options.form is Form.CHUNKS:
        return chunks(told, _matches(hit, segment, shown, options), options), ()
    return (), lines(told, _matches(hit, segment, shown, options), options)


def _explainer(explain: Explain, options: Options) -> Explain:
    return explain if options.explain_scores else _unexplained


def _unexplained(_: Match) -> str:
    return ""


def _matches(hit: Hit, segment: Segment, shown: int, options: Options) -> list[Match]:
    """The first matches in the content; told line by line, one over several lines is a match in each."""
    starts, ends = frozen(hit.starts[:shown]), frozen(hit.ends[:shown])
    content, symbols = segment.content, segment.symbols
    start, end = _bounds(segment, hit.document)
    points, found = score_matches(content.data, starts, ends, symbols.starts, symbols.lengths, symbols.points)
    worth = points if hit.boosts is None else points * hit.boosts[:shown]
    is_by_line = options.form is Form.LINES
    bytes_max = 0 if is_by_line else options.line_bytes_max        # a line of its own is clipped when it is told

    def placed(starts: U32, ends: U32) -> I64:
        return places(
            content.data, start, end, content.block_starts, content.block_lines, starts, ends,
            options.context_lines, bytes_max,
        )  # fmt: skip

    rows = placed(starts, ends).tolist()
    if is_by_line and any(row[LAST_LINE] > row[LINE] for row in rows):
        starts, ends, owners = split(segment, starts, ends)
        worth, found, rows = worth[owners], found[owners], placed(starts, ends).tolist()
    told = zip(starts.tolist(), ends.tolist(), worth.tolist(), found.tolist(), rows, strict=True)
    return [Match(begin, stop, value, symbol, *row) for begin, stop, value, symbol, row in told]


def split(segment: Segment, starts: U32, ends: U32) -> tuple[U32, U32, I64]:
    """The parts of matches in single lines, newlines and what is empty left out, and which match each is part of."""
    parts: list[tuple[int, int, int]] = []
    for owner, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        newlines = np.flatnonzero(segment.content.data[start:end] == _NEWLINE) + start
        edges = [start - 1, *newlines.tolist(), end]
        parts.extend((low + 1, high, owner) for low, high in pairwise(edges) if high > low + 1)
    rows = np.array(parts, np.int64).reshape(-1, 3)
    return frozen(rows[:, 0].astype(np.uint32)), frozen(rows[:, 1].astype(np.uint32)), rows[:, 2]


def _name_matches(hit: Hit, segment: Segment) -> list[Match]:
    if len(hit.starts) == 0:
        return []
    document = np.array([hit.document], np.uint32)
    marks = Marks(hit.starts, hit.ends, hit.boosts, document, np.array([0, len(hit.starts)]))
    base = int(segment.names.starts[hit.document])
    rows = zip(hit.starts.tolist(), hit.ends.tolist(), name_points(segment, marks).tolist(), strict=True)
    return [Match(start - base, end - base, worth) for start, end, worth in rows]


def symbol_info(segment: Segment, symbol: int) -> SymbolInfo:
    parent = int(segment.symbols.parents[symbol])
    name, kind = _symbol(segment, symbol)
    above, above_kind = _symbol(segment, parent) if parent >= 0 else ("", "")
    return SymbolInfo(name, kind, above, above_kind)


def _symbol(segment: Segment, symbol: int) -> tuple[str, str]:
    start = int(segment.symbols.starts[symbol])
    name = segment.content.data[start : start + int(segment.symbols.lengths[symbol])].tobytes()
    return name.decode("utf-8", "replace"), KINDS[segment.symbols.kinds[symbol]]
