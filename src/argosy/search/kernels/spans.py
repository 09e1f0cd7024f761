"""Operations on match spans: the document of each, overlaps, scores."""

import numba
import numpy as np

from argosy.search.arrays import F64, I32, I64, U8, U16, U32, U64, Flags
from argosy.search.kernels.compiler import BYTES, SHORTS, TABLE, WORDS, helper, kernel
from argosy.search.kernels.simd import FETCH_BYTES, bytes_at, fetch, shorts_at, words_at

_U = np.uintp
_SPANS = numba.types.Array(numba.uint32, 1, "C", readonly=True)
_WORTH = numba.types.Array(numba.float64, 1, "C", readonly=True)
_FIRSTS = numba.types.Array(numba.int64, 1, "C", readonly=True)

# Columns of the `score_parts` table, which has a row per index part. Sizes and ranks are values, the rest are
# addresses.
COLUMNS = 15
DATA, NAMES, NAME_STARTS, CATEGORIES, SYMBOL_STARTS, SYMBOL_LENGTHS, SYMBOL_POINTS, FIRST_SYMBOLS = range(8)
DATA_BYTES, NAMES_BYTES, SYMBOLS, SYMBOL_BYTES_MAX, FIRST_DOCUMENT, DOCUMENTS, RANK = range(8, COLUMNS)

# Columns of a file row, as written by `scan.py`.
FILE_ROW, DOCUMENT, FIRST_MATCH, IS_NAME = range(4)
NOT_COUNTED = -1  # instead of a row number: the file gets no score

_TOGETHER = 8  # symbols compared at once
_FILES_AHEAD = 2  # prefetch distance in files
_SYMBOLS_AHEAD_MAX = 512  # of one file
_FETCH_SYMBOLS = FETCH_BYTES // 4

# Points of a match; the values are zoekt's, so that its users find the order they know (decision 0014).
BOTH_EDGES = 500  # the match begins and ends where the kind of character changes
ONE_EDGE = 50
WHOLE_SYMBOL = 7000
EDGE_OF_SYMBOL = 5500
INSIDE_SYMBOL = 4000

# Points of a file; ties are broken by the rank of the repository, then by the position of the file in it.
# One point outweighs everything below it: a rank is at most 65,535, so rank and order together stay below 7 million.
POINT = 10_000_000
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
            step = 1  # galloping search, because hits are often far apart
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
    """Selects spans that do not overlap, of spans sorted by start and then by descending length."""
    keep = np.zeros(starts.size, np.bool_)
    free = np.uint32(0)
    for i in range(starts.size):
        if starts[i] >= free:
            keep[i] = True
            free = ends[i]
    return keep


# The classes of zoekt, whose edges users know: lower case, upper case, digit, quotes and stops, blank, other.
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
    step = 1  # galloping search: leap past the start of the span, then bisect
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
    """The points of each span (ascending by start), and the symbol it overlaps or -1."""
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
    """The highest points of `score_matches` per document; `firsts` has the index of each document's first span.

    A span in a symbol scores higher than any other span, and of the others none scores higher than one with both edges.
    So the text, which is unlikely to be in the CPU cache, is seldom read.
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
        # No match is in a symbol, so edges decide; 500 is the most they can give, and ends the search.
        if most == 0:
            for i in range(firsts[document], firsts[document + 1]):
                most = max(most, _edge_points(data, np.int64(starts[i]), np.int64(ends[i])))
                if most == BOTH_EDGES:
                    break
        best[document] = most
    return best


@helper
def _name_points(data: U8, first: int, last: int, start: int, end: int) -> int:
    """The points of a span in the file name data[first:last]."""
    total = _edge_points(data, start, end)
    base = last
    # 47 is the slash.
    while base > first and data[_U(base - 1)] != 47:
        base -= 1
    if start >= base:
        touches = np.int64(start == base) + np.int64(end == last)
        total += WHOLE_SYMBOL if touches == 2 else (EDGE_OF_SYMBOL if touches == 1 else INSIDE_SYMBOL)
    return total


@kernel((BYTES, WORDS, _SPANS, _SPANS, _SPANS))
def score_names(data: U8, names: U32, documents: U32, starts: U32, ends: U32) -> I32:
    """The points of each span in a file name: the base name counts as a symbol does in content."""
    points = np.empty(starts.size, np.int32)
    for i in range(starts.size):
        first = np.int64(names[_U(documents[i])])
        last = np.int64(names[_U(documents[i]) + _U(1)]) - 1
        points[i] = _name_points(data, first, last, np.int64(starts[i]), np.int64(ends[i]))
    return points


@helper
def _past_symbols(symbol_starts: U32, at: int, place: int) -> int:
    """The first symbol from `at` on that begins after `place`: usually near, else found by galloping search."""
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
        for k in range(_TOGETHER):  # without a branch, so that LLVM vectorizes the comparison
            passed += np.int64(symbol_starts[_U(at) + _U(k)] <= np.uint32(place))
        return at + passed
    while at < symbol_starts.size and symbol_starts[_U(at)] <= np.uint32(place):
        at += 1
    return at


@helper
def _best_in_document(
    data: U8, places: U32, first: int, past: int, size: int, symbols: tuple[U32, U16, U16], longest: int, own: int
) -> int:
    """`best_points` for spans of one size. `own` is the first symbol of the document."""
    symbol_starts, symbol_lengths, symbol_points = symbols
    most = 0
    at = own
    for i in range(first, past):
        start = np.int64(places[_U(i)])
        at = _past_symbols(symbol_starts, at, start)
        symbol = at
        if at > own:
            # Only the last symbol before the match can reach into it. `longest` spares reading its length in most
            # cases.
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
    """Prefetches the symbols of a file and its first match, which the score depends on."""
    if file[FILE_ROW] == NOT_COUNTED or file[IS_NAME]:
        return
    row, document = table[file[FILE_ROW]], file[DOCUMENT]
    firsts, starts = words_at(row[FIRST_SYMBOLS], 1), words_at(row[SYMBOL_STARTS], row[SYMBOLS])
    own, past = np.int64(firsts[_U(document)]), np.int64(firsts[_U(document + 1)])
    for at in range(own, min(past, own + _SYMBOLS_AHEAD_MAX), _FETCH_SYMBOLS):
        fetch(starts, _U(at))
    fetch(bytes_at(row[DATA], row[DATA_BYTES]), _U(places[_U(file[FIRST_MATCH])]))


@kernel((TABLE, numba.int64[:, ::1], numba.uint32[::1], numba.int64, _WORTH))
def score_parts(table: I64, files: I64, places: U32, size: int, worth: F64) -> F64:
    """The score of each file for a query of one atom (see `rank.py`); the last row, past the end, has none.

    All matches have one size. `worth` is the weight of points per category. A file that is not counted gets NaN.
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
        # One for the first document and less for later ones: earlier documents win ties.
        order = 1 - np.float64(row[FIRST_DOCUMENT] + document) / np.float64(row[DOCUMENTS])
        scores[f] = np.trunc(points) * POINT + np.float64(row[RANK] * RANK_POINT) + order * ORDER_POINT
    return scores


@kernel((BYTES, _SPANS, _SPANS))
def terms_of(data: U8, starts: U32, ends: U32) -> U64:
    """A hash (FNV-1a) of the text of each span, ignoring ASCII case."""
    out = np.empty(starts.size, np.uint64)
    for i in range(starts.size):
        # A collision would merge two terms of one file, which changes a score slightly and loses no match.
        term = np.uint64(0xCBF29CE484222325)
        for j in range(np.int64(starts[i]), np.int64(ends[i])):
            byte = data[_U(j)]
            if 65 <= byte <= 90:
                byte = np.uint8(byte + 32)
            term = (term ^ np.uint64(byte)) * np.uint64(0x100000001B3)
        out[i] = term
    return out
