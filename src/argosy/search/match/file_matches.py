"""Converts hits to file matches.

Kernels compute line numbers, points and encoded matches for many files per call: a result has fifty files, and a call
per file would cost more than its work.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TypeAlias

import numpy as np

from argosy.search.arrays import I64, U32, freeze
from argosy.search.documents import SkipReason
from argosy.search.index.index import Segment
from argosy.search.kernels.crc64 import TABLES, crc64
from argosy.search.kernels.encode_chunks import encode_chunks
from argosy.search.kernels.encode_lines import encode_lines
from argosy.search.kernels.line_numbers import places, places_in_documents
from argosy.search.kernels.msgpack_writer import MatchBatch, SymbolTable
from argosy.search.kernels.spans import score_matches
from argosy.search.match.chunk_matches import (
    DocumentView,
    Explain,
    LocatedMatch,
    chunks,
    lines,
    match_of,
    name_chunk,
    name_line,
)
from argosy.search.match.rank import file_explanation, match_explanation, name_explanation, name_points
from argosy.search.match.spans import SpanGroups
from argosy.search.match.top_k import Hit
from argosy.search.model import Chunk, FileMatch, Form, Line, Options, SymbolInfo, decode_chunks, decode_lines
from argosy.search.symbols.kinds import KINDS

TOGETHER_MATCHES = 4096  # per kernel call; a file with more matches has a call of its own

_SKIPS = tuple(reason.value for reason in SkipReason)
_NEWLINE = ord("\n")
KIND_TEXT = freeze(np.frombuffer("".join(KINDS).encode(), np.uint8))
KIND_EDGES = freeze(np.array([0, *accumulate(map(len, KINDS))], np.int64))

_View: TypeAlias = tuple[tuple[Chunk, ...], tuple[Line, ...], bytes]  # chunks, lines, or encoded chunks
_NOTHING: _View = (), (), b""


def file_matches(chosen: Sequence[tuple[Hit, int]], options: Options) -> Iterator[FileMatch]:
    """The file matches of these hits, each with its first `shown` matches."""
    at = 0
    while at < len(chosen):
        together, matches = at, 0
        while at < len(chosen) and (at == together or matches + chosen[at][1] <= TOGETHER_MATCHES):
            matches += chosen[at][1]
            at += 1
        group = chosen[together:at]
        for (hit, _), view in zip(group, _views(group, options), strict=True):
            yield _file_match(hit, view, options)


def _file_match(hit: Hit, view: _View, options: Options) -> FileMatch:
    part, repository = hit.index.parts[hit.part], hit.index.repository
    segment, mask = part.segment, int(part.branches[hit.document])
    branches = [branch for i, branch in enumerate(repository.branches) if mask >> i & 1]
    chunks, lines, encoded_matches = view
    return FileMatch(
        repository=repository.name,
        path=segment.path(hit.document).decode("utf-8", "surrogateescape"),
        language=segment.languages[segment.table.languages[hit.document]],
        branches=tuple([branch.name for branch in branches]),
        version=branches[0].version if branches else "",
        score=hit.score,
        match_count=hit.match_count,
        chunks=chunks,
        lines=lines,
        content=content_of(segment, hit.document) if options.with_content else None,
        checksum=checksum_of(segment, hit.document) if options.with_checksum else b"",
        repository_id=repository.id,
        repository_rank=repository.rank,
        skipped=_SKIPS[segment.table.skips[hit.document]],
        explanation=file_explanation(hit, is_bm25=options.use_bm25) if options.explain_scores else "",
        encoded_matches=encoded_matches,
    )


def content_of(segment: Segment, document: int) -> bytes:
    start, end = _bounds(segment, document)
    return segment.content.data[start:end].tobytes()


def checksum_of(segment: Segment, document: int) -> bytes:
    """CRC-64/ISO of the content, big-endian."""
    # Big-endian, as Go's library writes it into zoekt's API.
    return int(crc64(segment.content.data, *_bounds(segment, document), TABLES)).to_bytes(8, "big")


def _bounds(segment: Segment, document: int) -> tuple[int, int]:
    starts = segment.content.starts
    return int(starts[document]), int(starts[document + 1]) - 1


def _explainer(explain: Explain, options: Options) -> Explain:
    return explain if options.explain_scores else _no_explanation


def _no_explanation(_: LocatedMatch) -> str:
    return ""


def _views(group: Sequence[tuple[Hit, int]], options: Options) -> list[_View]:
    """The view of each file; matches in content are computed in one call per segment."""
    views: list[_View] = [_NOTHING] * len(group)
    segments: dict[tuple[int, int], list[int]] = {}
    for number, (hit, shown) in enumerate(group):
        if hit.is_name:
            views[number] = _of_name(hit, shown, options)
        else:
            # By identity: the hits keep their indexes alive, so ids stay distinct.
            segments.setdefault((id(hit.index), hit.part), []).append(number)
    for numbers in segments.values():
        # Kernels walk the documents of a segment in ascending order; results keep the order of the hits.
        numbers.sort(key=lambda number: group[number][0].document)
        for number, view in zip(numbers, _of_contents([group[n] for n in numbers], options), strict=True):
            views[number] = view
    return views


def _of_name(hit: Hit, shown: int, options: Options) -> _View:
    name, explain = hit.index.parts[hit.part].segment.path(hit.document), _explainer(name_explanation, options)
    matches = _name_matches(hit)[:shown]
    if options.form is Form.LINES:
        return (), (name_line(name, matches, explain),), b""
    return (name_chunk(name, matches, explain),), (), b""


def _of_contents(group: Sequence[tuple[Hit, int]], options: Options) -> Iterator[_View]:
    """The views of content matches in documents of one segment, ascending."""
    first = group[0][0]
    segment = first.index.parts[first.part].segment
    batch = _match_batch(segment, group, options)
    places = list(pairwise(batch.firsts.tolist()))
    if options.explain_scores:
        matches = _matches(batch, 0, len(batch.starts))
        for (hit, count), (low, high) in zip(group, places, strict=True):
            yield _with_care(hit, matches[low:high], count, options)
        return
    encoded_matches, edges = _encode(segment, batch, options)
    for (hit, count), place, (low, high) in zip(group, places, pairwise(edges), strict=True):
        # An empty encoding means that the kernel left the document out. Boosts are unknown to kernels, which score
        # plainly.
        if low == high or hit.boosts is not None:
            yield _with_care(hit, _matches(batch, *place), count, options)
        elif options.form is Form.LINES:
            yield (), decode_lines(encoded_matches[low:high]), b""
        elif options.pre_encoded:
            yield (), (), encoded_matches[low:high].tobytes()
        else:
            yield decode_chunks(encoded_matches[low:high]), (), b""


def _match_batch(segment: Segment, group: Sequence[tuple[Hit, int]], options: Options) -> MatchBatch:
    content, symbols = segment.content, segment.symbols
    starts = _concat([hit.starts[:shown] for hit, shown in group])
    ends = _concat([hit.ends[:shown] for hit, shown in group])
    documents = freeze(np.array([hit.document for hit, _ in group], np.uint32))
    firsts = freeze(np.array([0, *accumulate([shown for _, shown in group])], np.int64))
    rows = places_in_documents(
        content.data,
        content.starts,
        content.block_starts,
        content.block_lines,
        documents,
        firsts,
        starts,
        ends,
        options.context_lines,
        _bytes_max(options),
    )
    points, own = score_matches(content.data, starts, ends, symbols.starts, symbols.lengths, symbols.points)
    traits = segment.table.traits
    return MatchBatch(content.data, content.starts, traits, documents, firsts, starts, ends, rows, points, own)


def _matches(batch: MatchBatch, low: int, high: int) -> list[LocatedMatch]:
    table = np.empty((high - low, len(LocatedMatch._fields)), np.int64)
    table[:, 0], table[:, 1] = batch.starts[low:high], batch.ends[low:high]
    table[:, 2], table[:, 3] = batch.points[low:high], batch.symbols[low:high]
    table[:, 4:] = batch.rows[low:high]
    return list(map(match_of, table.tolist()))


def _concat(pieces: list[U32]) -> U32:
    return freeze(np.concatenate(pieces) if len(pieces) > 1 else pieces[0])


def _encode(segment: Segment, batch: MatchBatch, options: Options) -> tuple[memoryview, list[int]]:
    """The encoded chunks or lines of each document and their starts; empty for a document that needs more care."""
    symbols = segment.symbols
    table = SymbolTable(symbols.starts, symbols.lengths, symbols.kinds, symbols.parents, KIND_TEXT, KIND_EDGES)
    if options.form is Form.LINES:
        encoded, edges = encode_lines(batch, table, options.line_bytes_max)
    else:
        encoded, edges = encode_chunks(batch, table)
    return encoded.data, edges.tolist()


def _with_care(hit: Hit, matches: list[LocatedMatch], shown: int, options: Options) -> _View:
    """Builds the view in Python, for documents or options that kernels do not support."""
    segment = hit.index.parts[hit.part].segment
    if hit.boosts is not None:
        worths = zip(matches, hit.boosts[:shown].tolist(), strict=True)
        # Kernels know no boosts, so points are multiplied here.
        matches = [match._replace(points=match.points * boost) for match, boost in worths]
    view = DocumentView(
        text=segment.content.data.data,
        start=int(segment.content.starts[hit.document]),
        symbol_of=lambda symbol: symbol_info(segment, symbol),
        explain=_explainer(lambda match: match_explanation(segment, match), options),
    )
    if options.form is not Form.LINES:
        return chunks(view, matches, options), (), b""
    if any(match.last_line > match.line for match in matches):
        matches = _by_line(matches, hit, segment, options)
    return (), lines(view, matches, options), b""


def _bytes_max(options: Options) -> int:
    """The line length limit for chunks; single lines are clipped when they are built."""
    return 0 if options.form is Form.LINES else options.line_bytes_max


def _by_line(matches: Sequence[LocatedMatch], hit: Hit, segment: Segment, options: Options) -> list[LocatedMatch]:
    """Splits matches that span lines into one per line."""
    content = segment.content
    whole = np.array([(match.start, match.end) for match in matches], np.uint32)
    starts, ends, owners = split(segment, whole[:, 0], whole[:, 1])
    # The parts lie on other lines than the match they come from, so lines are located again.
    rows = places(
        content.data,
        *_bounds(segment, hit.document),
        content.block_starts,
        content.block_lines,
        starts,
        ends,
        options.context_lines,
        _bytes_max(options),
    )
    parts = zip(starts.tolist(), ends.tolist(), owners.tolist(), rows.tolist(), strict=True)
    return [
        LocatedMatch(start, end, matches[owner].points, matches[owner].symbol, *row) for start, end, owner, row in parts
    ]


def split(segment: Segment, starts: U32, ends: U32) -> tuple[U32, U32, I64]:
    """Splits matches at newlines, without empty parts; also returns the match of each part."""
    parts: list[tuple[int, int, int]] = []
    for owner, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        newlines = np.flatnonzero(segment.content.data[start:end] == _NEWLINE) + start
        edges = [start - 1, *newlines.tolist(), end]
        parts.extend((low + 1, high, owner) for low, high in pairwise(edges) if high > low + 1)
    rows = np.array(parts, np.int64).reshape(-1, 3)
    return freeze(rows[:, 0].astype(np.uint32)), freeze(rows[:, 1].astype(np.uint32)), rows[:, 2]


def _name_matches(hit: Hit) -> list[LocatedMatch]:
    if len(hit.starts) == 0:
        return []
    segment = hit.index.parts[hit.part].segment
    document = np.array([hit.document], np.uint32)
    marks = SpanGroups(hit.starts, hit.ends, hit.boosts, document, np.array([0, len(hit.starts)]))
    base = int(segment.names.starts[hit.document])
    rows = zip(hit.starts.tolist(), hit.ends.tolist(), name_points(segment, marks).tolist(), strict=True)
    return [LocatedMatch(start - base, end - base, worth) for start, end, worth in rows]


def symbol_info(segment: Segment, symbol: int) -> SymbolInfo:
    parent = int(segment.symbols.parents[symbol])
    name, kind = _symbol(segment, symbol)
    above, above_kind = _symbol(segment, parent) if parent >= 0 else ("", "")
    return SymbolInfo(name, kind, above, above_kind)


def _symbol(segment: Segment, symbol: int) -> tuple[str, str]:
    start = int(segment.symbols.starts[symbol])
    name = segment.content.data[start : start + int(segment.symbols.lengths[symbol])].tobytes()
    # Replaced, not kept as surrogates: a truncated name can end inside a character.
    return name.decode("utf-8", "replace"), KINDS[segment.symbols.kinds[symbol]]
