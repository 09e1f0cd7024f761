"""What the kernel writes of a document is, byte for byte, what msgpack says of the chunks that Python makes of it."""

from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.search.index.segment import Segment, Symbols, frozen
from argosy.search.kernels.places import IS_LONG, places_in_documents
from argosy.search.kernels.spans import score_matches
from argosy.search.kernels.told import tell
from argosy.search.match.excerpts import match_of
from argosy.search.match.telling import Told, chunks
from argosy.search.match.view import KIND_EDGES, KIND_TEXT, symbol_info
from argosy.search.model import Chunk, Options
from argosy.search.symbols.kinds import KINDS
from tests.search.match.asking import array, segment_of

Spans = list[tuple[int, int]]

NO_SYMBOLS = Symbols(
    starts=array(),
    lengths=frozen(np.zeros(0, np.uint16)),
    kinds=frozen(np.zeros(0, np.uint8)),
    points=frozen(np.zeros(0, np.uint16)),
    parents=frozen(np.zeros(0, np.int32)),
)

pieces = st.sampled_from(
    ["\n", "\r\n", "\n\n\n", "a", "foo bar", "ä", "€", "𝄞 ", "x" * 130, "ü" * 150, "y" * 500, "ab\n" * 60, "word " * 9]
)
texts = st.lists(pieces, min_size=1, max_size=14).map("".join)


def symbols_at(places: list[tuple[int, int, int, int]]) -> Symbols:
    """Definitions by start, end, kind and parent."""
    rows = np.array(places, np.int64).reshape(-1, 4)
    return Symbols(
        starts=frozen(rows[:, 0].astype(np.uint32)),
        lengths=frozen((rows[:, 1] - rows[:, 0]).astype(np.uint16)),
        kinds=frozen(rows[:, 2].astype(np.uint8)),
        points=frozen((100 * rows[:, 2]).astype(np.uint16)),
        parents=frozen(rows[:, 3].astype(np.int32)),
    )


def segment_with(files: dict[str, bytes]) -> Segment:
    return segment_of({path.encode(): text for path, text in files.items()})


class Shown:
    """The matches of some documents of a segment, told both ways."""

    def __init__(
        self,
        files: dict[str, bytes],
        matches: dict[str, Spans],
        symbols: Symbols = NO_SYMBOLS,
        *,
        context_lines: int = 0,
        line_bytes_max: int = 400,
    ) -> None:
        plain = segment_with(files)
        self.segment = Segment(plain.content, plain.postings, plain.names, symbols, plain.table, plain.languages)
        self.options = Options(context_lines=context_lines, line_bytes_max=line_bytes_max)
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
        self.firsts = frozen(np.cumsum(counts, dtype=np.int64))
        content = plain.content
        self.rows = places_in_documents(
            content.data, content.starts, content.block_starts, content.block_lines, array(*self.documents),
            self.firsts, self.starts, self.ends, self.options.context_lines, self.options.line_bytes_max,
        )  # fmt: skip
        self.points, self.symbols = score_matches(
            content.data, self.starts, self.ends, symbols.starts, symbols.lengths, symbols.points
        )

    def in_bytes(self) -> dict[str, bytes]:
        content, symbols = self.segment.content, self.segment.symbols
        told, edges = tell(
            content.data, content.starts, self.segment.table.traits, array(*self.documents), self.firsts,
            self.starts, self.ends, self.rows, self.points, self.symbols,
            symbols.starts, symbols.lengths, symbols.kinds, symbols.parents, KIND_TEXT, KIND_EDGES,
        )  # fmt: skip
        whole = told.tobytes()
        assert len(whole) == edges[-1]
        return {path: whole[low:high] for path, (low, high) in zip(self.paths, pairwise(edges.tolist()), strict=True)}

    def in_chunks(self) -> dict[str, tuple[Chunk, ...]]:
        columns = (self.starts, self.ends, self.points, self.symbols, self.rows)
        matches = [match_of(row) for row in np.column_stack(columns).tolist()]
        return {
            path: chunks(self._told(document), matches[low:high], self.options)
            for path, document, (low, high) in zip(
                self.paths, self.documents, pairwise(self.firsts.tolist()), strict=True
            )
        }

    def _told(self, document: int) -> Told:
        return Told(
            text=memoryview(self.segment.content.data),  # type: ignore[arg-type]
            start=int(self.segment.content.starts[document]),
            symbol_of=lambda symbol: symbol_info(self.segment, symbol),
            explain=lambda _: "",
        )


def encoded(told: tuple[Chunk, ...]) -> bytes:
    return msgspec.msgpack.encode(told)


def spans_in(text: bytes, draw: st.DataObject, most: int = 24) -> Spans:
    """Some that ascend, often close to each other; nearly all begin and end between characters."""
    edges = [at for at in range(len(text) + 1) if at == len(text) or text[at] & 0xC0 != 0x80]
    cuts = sorted(draw.draw(st.lists(st.sampled_from(edges), min_size=2, max_size=most, unique=True)))
    return list(zip(cuts[::2], cuts[1::2], strict=False))


@settings(deadline=None, max_examples=150)
@given(texts, texts, st.integers(0, 3), st.data())
def test_what_is_written_is_what_msgpack_says_of_the_chunks(
    one: str, two: str, context: int, draw: st.DataObject
) -> None:
    files = {"a.txt": one.encode(), "b.txt": two.encode()}
    matches = {path: spans_in(text, draw) for path, text in files.items()}
    segment = segment_with(files)
    symbols: list[tuple[int, int, int, int]] = []
    for i in range(segment.content.documents):
        base = int(segment.content.starts[i])
        for low, high in spans_in(files[segment.path(i).decode()], draw, 12):
            parent = draw.draw(st.integers(-1, len(symbols) - 1))
            symbols.append((base + low, base + high, draw.draw(st.integers(0, len(KINDS) - 1)), parent))
    shown = Shown(files, matches, symbols_at(symbols), context_lines=context)
    expected, written = shown.in_chunks(), shown.in_bytes()
    for path, (low, high) in zip(shown.paths, pairwise(shown.firsts.tolist()), strict=True):
        needs_care = bool(shown.rows[low:high, IS_LONG].any())
        assert written[path] == (b"" if needs_care else encoded(expected[path]))


def test_numbers_and_lengths_of_any_width_are_written() -> None:
    text = b"a\n\n" * 200 + b"\n" * 70_000 + b"b" * 300 + b"\n" + b"a" * 70_000 + b"\n"
    matches = [(i, i + 1) for i in range(len(text)) if text[i] == ord("a")]
    shown = Shown({"a.txt": text}, {"a.txt": [*matches]}, line_bytes_max=0)
    [told] = shown.in_chunks().values()
    assert (len(told), len(told[-1].ranges), told[-1].start.line) == (201, 70_000, 70_402)
    assert shown.in_bytes() == {"a.txt": encoded(told)}


@pytest.mark.parametrize("length", [0, 31, 32, 255, 256, 65_535])
def test_names_of_any_length_are_written(length: int) -> None:
    text = b"-" * 9 + b"n" * length + b"-"
    symbols = symbols_at([(0, 9, 3, -1), (9, 9 + length, 1, 0), (9 + length, 10 + length, 2, 1)])
    spans = [(0, 1), (9 + length // 2, 9 + length), (9 + length, 10 + length)]
    shown = Shown({"a.txt": text}, {"a.txt": [each for each in spans if each[0] < each[1]]}, symbols, line_bytes_max=0)
    [told] = shown.in_chunks().values()
    assert [len(each.parent) for chunk in told for each in chunk.symbols if each][-1] == length
    assert shown.in_bytes() == {"a.txt": encoded(told)}


def test_columns_count_characters_also_far_into_a_line() -> None:
    text = ("ä€" * 600 + "foo𝄞bar\n" + "ü bar").encode()
    places = [(text.index(b"foo"), text.index(b"foo") + 3), (text.index(b"bar"), text.index(b"bar") + 3)]
    shown = Shown({"a.txt": text}, {"a.txt": [*places, (len(text) - 3, len(text))]}, line_bytes_max=0)
    written = shown.in_bytes()["a.txt"]
    [told] = msgspec.msgpack.decode(written, type=tuple[Chunk, ...])
    assert [(each.start.column, each.end.column) for each in told.ranges] == [(1201, 1204), (1205, 1208), (3, 6)]
    assert written == encoded(shown.in_chunks()["a.txt"])


def test_nothing_is_written_of_documents_that_need_care_and_all_of_the_others() -> None:
    files = {
        "bytes.txt": b"\xff foo\n",
        "inside.txt": "äfoo\n".encode(),
        "long.txt": b"foo " * 200,
        "name.txt": "ä foo\n".encode(),
        "parent.txt": "ä foo\n".encode(),
        "plain.txt": "ä foo\n".encode(),
    }
    matches: dict[str, Spans] = {path: [(text.index(b"foo"), text.index(b"foo") + 3)] for path, text in files.items()}
    matches["inside.txt"] = [(1, 5)]
    segment = segment_with(files)
    places = sorted(
        (int(segment.content.starts[i]), segment.path(i).decode()) for i in range(segment.content.documents)
    )
    symbols: list[tuple[int, int, int, int]] = []
    for base, path in places:
        if path == "name.txt":
            symbols.append((base + 1, base + 6, 1, -1))         # begins inside a character
        elif path == "parent.txt":
            symbols += [(base, base + 1, 1, -1), (base + 3, base + 6, 1, len(symbols))]
    shown = Shown(files, matches, symbols_at(symbols))
    written = shown.in_bytes()
    assert {path for path, each in written.items() if each} == {"plain.txt"}
    assert written["plain.txt"] == encoded(shown.in_chunks()["plain.txt"])
