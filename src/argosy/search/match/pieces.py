"""Running a regular expression over many short pieces of text in one go.

The pieces are copied into one buffer with a separator between them and RE2 runs over that: a call per piece would cost
more than the matching. A match inside a separator is none. Pieces touched by a match that reaches into a separator, or
out of one, are matched again, one by one.
"""

import numpy as np

from argosy.search.index.segment import U8, U32, frozen
from argosy.search.kernels.lines import gather
from argosy.search.match.budget import Budget
from argosy.search.match.expression import Expression, Manner
from argosy.search.match.spans import NOTHING, joined

MATCHES_MAX = 1 << 20                   # of one pattern in one call; a batch holds far less text than would allow more


def find_in_pieces(expression: Expression, data: U8, starts: U32, ends: U32, manner: Manner) -> tuple[U32, U32]:
    """The matches inside the pieces, as (starts, ends) in the data."""
    if len(starts) == 0:
        return NOTHING, NOTHING
    if expression.has_text_anchors:
        return _one_by_one(expression, data, starts, ends, manner)
    text, begins = gather(data, frozen(starts), frozen(ends))
    found = np.array(expression.find_all(text, MATCHES_MAX, manner), np.int64).reshape(-1, 2)
    first = np.searchsorted(begins, found[:, 0], "right") - 1
    last = np.searchsorted(begins, found[:, 1] - 1, "right") - 1
    stops = begins + (ends.astype(np.int64) - starts)
    is_inside = (last == first) & (found[:, 1] <= stops[last])
    is_astray = ~is_inside & ((last > first) | (found[:, 0] < stops[first]))
    again = np.zeros(len(starts) + 1, np.int64)         # +1 where a touched stretch of pieces begins, -1 past its end
    np.add.at(again, (first + (found[:, 0] >= stops[first]))[is_astray], 1)
    np.add.at(again, last[is_astray] + 1, -1)
    is_again = np.cumsum(again)[:-1] > 0
    good = is_inside & ~is_again[first]
    back = found[good] - begins[first[good]][:, None] + starts[first[good]][:, None]
    sound = back[:, 0].astype(np.uint32), back[:, 1].astype(np.uint32)
    if not is_again.any():
        return sound
    return joined([sound, _one_by_one(expression, data, starts[is_again], ends[is_again], manner)])


def _one_by_one(expression: Expression, data: U8, starts: U32, ends: U32, manner: Manner) -> tuple[U32, U32]:
    view = memoryview(data)  # type: ignore[arg-type]
    found: list[tuple[int, int]] = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        spans = expression.find_all(view[start:end], MATCHES_MAX, manner)
        found.extend((start + first, start + last) for first, last in spans)
    pairs = np.array(found, np.uint32).reshape(-1, 2)
    return pairs[:, 0].copy(), pairs[:, 1].copy()


def find_in_whole(
    expression: Expression, data: U8, starts: U32, ends: U32, manner: Manner, budget: Budget
) -> tuple[U32, U32]:
    """The matches in whole documents; what was found until the budget was spent."""
    found: list[tuple[U32, U32]] = []
    for i in range(len(starts)):
        found.append(_one_by_one(expression, data, starts[i : i + 1], ends[i : i + 1], manner))
        if budget.is_spent():
            break
    return joined(found)
