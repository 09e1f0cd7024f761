"""Matches of some documents, written in both ways: as bytes by a kernel, and as objects by Python."""

from collections.abc import Iterator
from itertools import pairwise

import msgspec
import numpy as np
from hypothesis import strategies as st

from argosy.search.arrays import freeze
from argosy.search.index.index import Segment, Symbols
from argosy.search.kernels import msgpack_writer
from argosy.search.kernels.encode_chunks import encode_chunks
from argosy.search.kernels.encode_lines import encode_lines
from argosy.search.kernels.line_numbers import places_in_documents
from argosy.search.kernels.spans import score_matches
from argosy.search.match.chunk_matches import DocumentView, LocatedMatch, chunks, lines, match_of
from argosy.search.match.file_matches import KIND_EDGES, KIND_TEXT, symbol_info
from argosy.search.model import Chunk, Form, Line, Options
from argosy.search.symbols.kinds import KINDS
from tests.search.match.search_calls import array, segment_of

Spans = list[tuple[int, int]]

NO_SYMBOLS = Symbols(
    starts=array(),
    lengths=freeze(np.zeros(0, np.uint16)),
    kinds=freeze(np.zeros(0, np.uint8)),
    points=freeze(np.zeros(0, np.uint16)),
    parents=freeze(np.zeros(0, np.int32)),
)

pieces = st.sampled_from(
    ["\n", "\r\n", "\n\n\n", "a", "foo bar", "ä", "€", "𝄞 ", "x" * 130, "ü" * 150, "y" * 500, "ab\n" * 60, "word " * 9]
)
texts = st.lists(pieces, min_size=1, max_size=14).map("".join)


def symbols_at(places: list[tuple[int, int, int, int]]) -> Symbols:
    """Definitions by start, end, kind and parent."""
    rows = np.array(places, np.int64).reshape(-1, 4)
    return Symbols(
        starts=freeze(rows[:, 0].astype(np.uint32)),
        lengths=freeze((rows[:, 1] - rows[:, 0]).astype(np.uint16)),
        kinds=freeze(rows[:, 2].astype(np.uint8)),
        points=freeze((100 * rows[:, 2]).astype(np.uint16)),
        parents=freeze(rows[:, 3].astype(np.int32)),
    )


def segment_with(files: dict[str, bytes]) -> Segment:
    return segment_of({path.encode(): text for path, text in files.items()})


class Matches:
    """The matches of some documents of a segment, written in both ways."""

    def __init__(
        self,
        files: dict[str, bytes],
        matches: dict[str, Spans],
        symbols: Symbols = NO_SYMBOLS,
        *,
        context_lines: int = 0,
        line_bytes_max: int = 400,
        form: Form = Form.CHUNKS,
    ) -> None:
        plain = segment_with(files)
        self.segment = Segment(plain.content, plain.postings, plain.names, symbols, plain.table, plain.languages)
        self.options = Options(context_lines=context_lines, line_bytes_max=line_bytes_max, form=form)
        paths = [plain.path(i).decode() for i in range(plain.content.documents)]
        self.documents = [i for i, path in enumerate(paths) if matches.get(path)]
        self.paths = [paths[i] for i in self.documents]
        spans = [
            (int(plain.content.starts[i]) + low, int(plain.content.starts[i]) + high)
            for i in self.documents
            for low, high in matches[paths[i]]
        ]
        self.starts, self.ends = array(*(low for low, _ in spans)), array(*(high for _, high in spans))
        counts = [0, *(len(matches[path]) for path in self.paths)]
        self.firsts = freeze(np.cumsum(counts, dtype=np.int64))
        content = plain.content
        self.rows = places_in_documents(
            content.data,
            content.starts,
            content.block_starts,
            content.block_lines,
            array(*self.documents),
            self.firsts,
            self.starts,
            self.ends,
            self.options.context_lines,
            self.options.line_bytes_max if form is Form.CHUNKS else 0,
        )
        self.points, self.symbols = score_matches(
            content.data, self.starts, self.ends, symbols.starts, symbols.lengths, symbols.points
        )

    def in_bytes(self) -> dict[str, bytes]:
        content, symbols, is_lines = self.segment.content, self.segment.symbols, self.options.form is Form.LINES
        shown = msgpack_writer.MatchBatch(
            content.data,
            content.starts,
            self.segment.table.traits,
            array(*self.documents),
            self.firsts,
            self.starts,
            self.ends,
            self.rows,
            self.points,
            self.symbols,
        )
        defined = msgpack_writer.SymbolTable(
            symbols.starts, symbols.lengths, symbols.kinds, symbols.parents, KIND_TEXT, KIND_EDGES
        )
        bytes_max = self.options.line_bytes_max
        written, edges = encode_lines(shown, defined, bytes_max) if is_lines else encode_chunks(shown, defined)
        whole = written.tobytes()
        assert len(whole) == edges[-1]
        return {path: whole[low:high] for path, (low, high) in zip(self.paths, pairwise(edges.tolist()), strict=True)}

    def in_chunks(self) -> dict[str, tuple[Chunk, ...]]:
        return {path: chunks(view, matches, self.options) for path, view, matches in self._by_document()}

    def in_lines(self) -> dict[str, tuple[Line, ...]]:
        return {path: lines(view, matches, self.options) for path, view, matches in self._by_document()}

    def _by_document(self) -> Iterator[tuple[str, DocumentView, list[LocatedMatch]]]:
        columns = (self.starts, self.ends, self.points, self.symbols, self.rows)
        matches = [match_of(row) for row in np.column_stack(columns).tolist()]
        for path, document, (low, high) in zip(self.paths, self.documents, pairwise(self.firsts.tolist()), strict=True):
            yield path, self._view(document), matches[low:high]

    def _view(self, document: int) -> DocumentView:
        return DocumentView(
            text=memoryview(self.segment.content.data),  # type: ignore[arg-type]
            start=int(self.segment.content.starts[document]),
            symbol_of=lambda symbol: symbol_info(self.segment, symbol),
            explain=lambda _: "",
        )


def encode(passages: tuple[Chunk, ...] | tuple[Line, ...]) -> bytes:
    return msgspec.msgpack.encode(passages)


def symbols_in(files: dict[str, bytes], draw: st.DataObject) -> Symbols:
    """Some, in the order of the segment's documents."""
    segment = segment_with(files)
    symbols: list[tuple[int, int, int, int]] = []
    for i in range(segment.content.documents):
        base = int(segment.content.starts[i])
        for low, high in spans_in(files[segment.path(i).decode()], draw, 12):
            parent = draw.draw(st.integers(-1, len(symbols) - 1))
            symbols.append((base + low, base + high, draw.draw(st.integers(0, len(KINDS) - 1)), parent))
    return symbols_at(symbols)


def spans_in(text: bytes, draw: st.DataObject, most: int = 24) -> Spans:
    """Some that ascend, often close to each other; nearly all begin and end between characters."""
    edges = [at for at in range(len(text) + 1) if at == len(text) or text[at] & 0xC0 != 0x80]
    cuts = sorted(draw.draw(st.lists(st.sampled_from(edges), min_size=2, max_size=most, unique=True)))
    return list(zip(cuts[::2], cuts[1::2], strict=False))
