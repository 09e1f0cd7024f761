"""Arithmetic on spans: which document, which overlap, how good."""

import numba
import numpy as np

from argosy.search.index.segment import F64, I32, I64, U8, U16, U32, U64, Flags
from argosy.search.kernels.compiling import BYTES, SHORTS, TABLE, WORDS, helper, kernel
from argosy.search.kernels.machine import FETCH_BYTES, bytes_at, fetch, shorts_at, words_at

_U = np.uintp
_SPANS = numba.types.Array(numba.uint32, 1, "C", readonly=True)
_WORTH = numba.types.Array(numba.float64, 1, "C", readonly=True)
_FIRSTS = numba.types.Array(numba.int64, 1, "C", readonly=True)

# What `score_in_all` must know of a part of an index: a row of its table. Sizes and ranks are numbers, the others
# addresses.
COLUMNS = 15
DATA, NAMES, NAME_STARTS, CATEGORIES, SYMBOL_STARTS, SYMBOL_LENGTHS, SYMBOL_POINTS, FIRST_SYMBOLS = range(8)
DATA_BYTES, NAMES_BYTES, SYMBOLS, SYMBOL_BYTES_MAX, FIRST_DOCUMENT, DOCUMENTS, RANK = range(8, COLUMNS)

# The columns of a file, as `scan.py` tells them.
FILE_ROW, DOCUMENT, FIRST_MATCH, IS_NAME = range(4)
NOT_COUNTED = -1  # instead of its row, in a file that is to have no score

_TOGETHER = 8  # symbols passed at once
_FILES_AHEAD = 2  # what such a file needs is fetched
_SYMBOLS_AHEAD_MAX = 512  # of one file
_FETCH_SYMBOLS = FETCH_BYTES // 4

# Points of one match; the figures are zoekt's.
BOTH_EDGES = 500  # the match begins and ends where the kind of character changes
ONE_EDGE = 50
WHOLE_SYMBOL = 7000
EDGE_OF_SYMBOL = 5500
INSIDE_SYMBOL = 4000

# Points of a file; between equally good ones, the repository's rank and the file's place in it decide.
POINT = 10_000_000  # one point outweighs everything below it
RANK_POINT = 100
ORDER_POINT = 10


@kernel((WORDS, _SPANS))
def documents_of(starts: U32, positions: U32) -> U32:
    """The document of each of these ascending positions."""
    out = np.empty(positions.size, np.uint32)
    document = 0
    for i in range(positions.size):
        at = positions[i]
        if at >= starts[_U(document + 1)]:
            step = 1  # leap, then halve: hits are often far apart
            low = document + 1
            while low + step < starts.size and starts[_U(low + step)] <= at:
                low += step
                step <<= 1
            high = min(low + step, starts.size - 1)
            while low + 1 < high:
                middle = (low + high) >> 1
                if starts[_U(middle)] <= at:
                    low = middle
                else:
                    high = middle
            document = low
        out[i] = document
    return out


@kernel((_SPANS, _SPANS))
def without_overlaps(starts: U32, ends: U32) -> Flags:
    """Which spans stay, of spans sorted by start and then the longest first."""
    keep = np.zeros(starts.size, np.bool_)
    free = np.uint32(0)
    for i in range(starts.size):
        if starts[i] >= free:
            keep[i] = True
            free = ends[i]
    return keep


@helper
def _class_of(byte: int) -> int:
    if 97 <= byte <= 122:
        return 1
    if 65 <= byte <= 90:
        return 2
    if 48 <= byte <= 57:
        return 3
    if byte == 46 or byte == 44 or byte == 59 or byte == 34 or byte == 39:
        return 4
    if byte == 32 or byte == 9 or byte == 10 or byte == 13 or byte == 0:
        return 5
    return 6


@helper
def _is_edge(data: U8, at: int) -> bool:
    if at == 0 or at >= data.size:
        return True
    return _class_of(data[_U(at - 1)]) != _class_of(data[_U(at)])


@helper
def _edge_points(data: U8, start: int, end: int) -> int:
    edges = np.int64(_is_edge(data, start)) + np.int64(_is_edge(data, end))
    return BOTH_EDGES if edges == 2 else (ONE_EDGE if edges == 1 else 0)


@helper
def _next_symbol(symbol_starts: U32, symbol_lengths: U16, at: int, start: int) -> int:
    """The first symbol from `at` on that does not end before a span that begins at `start`."""
    step = 1  # leap past the span's beginning, then halve back to it
    while at + step < symbol_starts.size and np.int64(symbol_starts[_U(at + step)]) <= start:
        at += step
        step <<= 1
    high = min(at + step, symbol_starts.size)
    while at + 1 < high:
        middle = (at + high) >> 1
        if np.int64(symbol_starts[_U(middle)]) <= start:
            at = middle
        else:
            high = middle
    if at < symbol_starts.size and np.int64(symbol_starts[_U(at)]) + np.int64(symbol_lengths[_U(at)]) <= start:
        at += 1
    return at


@helper
def _symbol_points(symbol_starts: U32, symbol_lengths: U16, symbol_points: U16, at: int, start: int, end: int) -> int:
    first = np.int64(symbol_starts[_U(at)])
    touches = np.int64(first == start) + np.int64(first + np.int64(symbol_lengths[_U(at)]) == end)
    place = WHOLE_SYMBOL if touches == 2 else (EDGE_OF_SYMBOL if touches == 1 else INSIDE_SYMBOL)
    return place + np.int64(symbol_points[_U(at)])


@kernel((BYTES, _SPANS, _SPANS, WORDS, SHORTS, SHORTS))
def score_matches(
    data: U8, starts: U32, ends: U32, symbol_starts: U32, symbol_lengths: U16, symbol_points: U16
) -> tuple[I32, I32]:
    """Points of each span, of spans ascending by start; and the symbol each overlaps, or -1."""
    points = np.empty(starts.size, np.int32)
    symbols = np.empty(starts.size, np.int32)
    at = 0  # symbols before this one end before the current span begins
    for i in range(starts.size):
        start = np.int64(starts[i])
        end = np.int64(ends[i])
        total = _edge_points(data, start, end)
        at = _next_symbol(symbol_starts, symbol_lengths, at, start)
        symbols[i] = -1
        if at < symbol_starts.size and np.int64(symbol_starts[_U(at)]) < end:
            total += _symbol_points(symbol_starts, symbol_lengths, symbol_points, at, start, end)
            symbols[i] = at
        points[i] = total
    return points, symbols


@kernel((BYTES, _SPANS, _SPANS, _FIRSTS, WORDS, SHORTS, SHORTS))
def best_points(
    data: U8,
    starts: U32,
    ends: U32,
    firsts: I64,
    symbol_starts: U32,
    symbol_lengths: U16,
    symbol_points: U16,
) -> I32:
    """The most points that `score_matches` gives to any span of each document; `firsts` says where they begin.

    A span in a symbol has more than any other, and none of the others more than one with both edges. So the text, which
    is far away by now, is seldom looked at.
    """
    best = np.empty(firsts.size - 1, np.int32)
    at = 0
    for document in range(best.size):
        most = 0
        for i in range(firsts[document], firsts[document + 1]):
            start, end = np.int64(starts[i]), np.int64(ends[i])
            at = _next_symbol(symbol_starts, symbol_lengths, at, start)
            if at < symbol_starts.size and np.int64(symbol_starts[_U(at)]) < end:
                points = _symbol_points(symbol_starts, symbol_lengths, symbol_points, at, start, end)
                most = max(most, points + _edge_points(data, start, end))
        if most == 0:
            for i in range(firsts[document], firsts[document + 1]):
                most = max(most, _edge_points(data, np.int64(starts[i]), np.int64(ends[i])))
                if most == BOTH_EDGES:
                    break
        best[document] = most
    return best


@helper
def _name_points(data: U8, first: int, last: int, start: int, end: int) -> int:
    """Of a span in a file name that begins at `first` and ends at `last`."""
    total = _edge_points(data, start, end)
    base = last
    while base > first and data[_U(base - 1)] != 47:
        base -= 1
    if start >= base:
        touches = np.int64(start == base) + np.int64(end == last)
        total += WHOLE_SYMBOL if touches == 2 else (EDGE_OF_SYMBOL if touches == 1 else INSIDE_SYMBOL)
    return total


@kernel((BYTES, WORDS, _SPANS, _SPANS, _SPANS))
def score_names(data: U8, names: U32, documents: U32, starts: U32, ends: U32) -> I32:
    """Points of each span in a file name: the base name counts like a symbol does in a text."""
    points = np.empty(starts.size, np.int32)
    for i in range(starts.size):
        first = np.int64(names[_U(documents[i])])
        last = np.int64(names[_U(documents[i]) + _U(1)]) - 1
        points[i] = _name_points(data, first, last, np.int64(starts[i]), np.int64(ends[i]))
    return points


@helper
def _past_symbols(symbol_starts: U32, at: int, place: int) -> int:
    """Past the symbols from `at` on that begin there or before: most often near, else found by leaps and halves."""
    step = _TOGETHER
    while at + step <= symbol_starts.size and symbol_starts[_U(at + step - 1)] <= np.uint32(place):
        at += step
        step <<= 1
    while step > _TOGETHER:
        step >>= 1
        if at + step <= symbol_starts.size and symbol_starts[_U(at + step - 1)] <= np.uint32(place):
            at += step
    if at + _TOGETHER <= symbol_starts.size:
        passed = 0
        for k in range(_TOGETHER):  # without a branch, so that the compiler makes one comparison of it
            passed += np.int64(symbol_starts[_U(at) + _U(k)] <= np.uint32(place))
        return at + passed
    while at < symbol_starts.size and symbol_starts[_U(at)] <= np.uint32(place):
        at += 1
    return at


@helper
def _best_in_document(
    data: U8, places: U32, first: int, past: int, size: int, symbols: tuple[U32, U16, U16], longest: int, own: int
) -> int:
    """Like `best_points`, of spans of one size. `own` is the document's first symbol; no symbol is longer than that."""
    symbol_starts, symbol_lengths, symbol_points = symbols
    most = 0
    at = own
    for i in range(first, past):
        start = np.int64(places[_U(i)])
        at = _past_symbols(symbol_starts, at, start)
        symbol = at
        if at > own:
            before = np.int64(symbol_starts[_U(at - 1)])
            if before + longest > start and before + np.int64(symbol_lengths[_U(at - 1)]) > start:
                symbol = at - 1
        if symbol < symbol_starts.size and np.int64(symbol_starts[_U(symbol)]) < start + size:
            points = _symbol_points(symbol_starts, symbol_lengths, symbol_points, symbol, start, start + size)
            most = max(most, points + _edge_points(data, start, start + size))
    if most == 0:
        for i in range(first, past):
            start = np.int64(places[_U(i)])
            most = max(most, _edge_points(data, start, start + size))
            if most == BOTH_EDGES:
                break
    return most


@helper
def _fetch_for(table: I64, file: I64, places: U32) -> None:
    """The symbols of a file, and its first match: the score is about what is there."""
    if file[FILE_ROW] == NOT_COUNTED or file[IS_NAME]:
        return
    row, document = table[file[FILE_ROW]], file[DOCUMENT]
    firsts, starts = words_at(row[FIRST_SYMBOLS], 1), words_at(row[SYMBOL_STARTS], row[SYMBOLS])
    own, past = np.int64(firsts[_U(document)]), np.int64(firsts[_U(document + 1)])
    for at in range(own, min(past, own + _SYMBOLS_AHEAD_MAX), _FETCH_SYMBOLS):
        fetch(starts, _U(at))
    fetch(bytes_at(row[DATA], row[DATA_BYTES]), _U(places[_U(file[FIRST_MATCH])]))


@kernel((TABLE, numba.int64[:, ::1], numba.uint32[::1], numba.int64, _WORTH))
def score_in_all(table: I64, files: I64, places: U32, size: int, worth: F64) -> F64:
    """The score of each file, but of the last, which is past them all: as `rank.py` says, of a query of one atom.

    All matches have one size. `worth` is what points are worth in each category; a file that is not counted has NaN.
    """
    scores = np.empty(files.shape[0] - 1, np.float64)
    for f in range(scores.size):
        if f + _FILES_AHEAD < scores.size:
            _fetch_for(table, files[f + _FILES_AHEAD], places)
        if files[f, FILE_ROW] == NOT_COUNTED:
            scores[f] = np.nan
            continue
        row, document = table[files[f, FILE_ROW]], files[f, DOCUMENT]
        first, past = files[f, FIRST_MATCH], files[f + 1, FIRST_MATCH]
        most = np.int64(0)
        if files[f, IS_NAME]:
            names, starts = bytes_at(row[NAMES], row[NAMES_BYTES]), words_at(row[NAME_STARTS], 1)
            begin, end = np.int64(starts[_U(document)]), np.int64(starts[_U(document + 1)]) - 1
            for i in range(first, past):
                start = np.int64(places[_U(i)])
                most = max(most, _name_points(names, begin, end, start, start + size))
        else:
            starts, lengths = words_at(row[SYMBOL_STARTS], row[SYMBOLS]), shorts_at(row[SYMBOL_LENGTHS], row[SYMBOLS])
            symbols = starts, lengths, shorts_at(row[SYMBOL_POINTS], row[SYMBOLS])
            data, own = bytes_at(row[DATA], row[DATA_BYTES]), words_at(row[FIRST_SYMBOLS], 1)[_U(document)]
            most = _best_in_document(data, places, first, past, size, symbols, row[SYMBOL_BYTES_MAX], np.int64(own))
        points = np.float64(most) * worth[bytes_at(row[CATEGORIES], 1)[_U(document)]]
        order = 1 - np.float64(row[FIRST_DOCUMENT] + document) / np.float64(row[DOCUMENTS])
        scores[f] = np.trunc(points) * POINT + np.float64(row[RANK] * RANK_POINT) + order * ORDER_POINT
    return scores


@kernel((BYTES, _SPANS, _SPANS))
def terms_of(data: U8, starts: U32, ends: U32) -> U64:
    """A number for the text of each span, the same for the same text up to ASCII case (FNV-1a)."""
    out = np.empty(starts.size, np.uint64)
    for i in range(starts.size):
        term = np.uint64(0xCBF29CE484222325)
        for j in range(np.int64(starts[i]), np.int64(ends[i])):
            byte = data[_U(j)]
            if 65 <= byte <= 90:
                byte = np.uint8(byte + 32)
            term = (term ^ np.uint64(byte)) * np.uint64(0x100000001B3)
        out[i] = term
    return out
