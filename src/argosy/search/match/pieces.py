"""Running a regular expression over many short pieces of text in one go.

The pieces are copied into one buffer with a separator between them and RE2 runs over that: a call per piece would cost
more than the matching. A match inside a separator is none. Pieces touched by a match that reaches into a separator, or
out of one, are matched again, one by one.
"""

import numpy as np

from argosy.search.index.segment import I64, U8, U32, Flags, frozen
from argosy.search.kernels.lines import gather
from argosy.search.match.budget import Budget
from argosy.search.match.expression import Expression, Manner
from argosy.search.match.spans import NOTHING, joined


def find_in_pieces(
    expression: Expression, data: U8, starts: U32, ends: U32, manner: Manner, budget: Budget
) -> tuple[U32, U32]:
    """The matches inside the pieces, as (starts, ends) in the data; what was found until the budget was spent."""
    if len(starts) == 0:
        return NOTHING, NOTHING
    if expression.has_text_anchors:
        return find_one_by_one(expression, data, starts, ends, manner, budget)
    text, begins = gather(data, frozen(starts), frozen(ends))
    found = expression.find_all(text, manner, budget)
    if len(found) == 0:
        return NOTHING, NOTHING
    first = np.searchsorted(begins, found[:, 0], "right") - 1  # the piece each match begins in, or after
    stops = begins + (ends.astype(np.int64) - starts)
    is_inside, is_again = _sorted_out(found, first, begins, stops)
    good = is_inside & ~is_again[first]
    back = found[good] + (starts.astype(np.int64) - begins)[first[good]][:, None]
    sound = back[:, 0].astype(np.uint32), back[:, 1].astype(np.uint32)
    if not is_again.any():
        return sound
    return joined([sound, find_one_by_one(expression, data, starts[is_again], ends[is_again], manner, budget)])


def _sorted_out(found: I64, first: I64, begins: I64, stops: I64) -> tuple[Flags, Flags]:
    """Which matches lie inside one piece; which pieces are touched by one that does not, and is not just separator."""
    last = np.searchsorted(begins, found[:, 1] - 1, "right") - 1
    is_inside: Flags = (last == first) & (found[:, 1] <= stops[last])
    is_astray = ~is_inside & ((last > first) | (found[:, 0] < stops[first]))
    edges = np.zeros(len(begins) + 1, np.int64)  # +1 where a touched stretch of pieces begins, -1 past its end
    np.add.at(edges, (first + (found[:, 0] >= stops[first]))[is_astray], 1)
    np.add.at(edges, last[is_astray] + 1, -1)
    return is_inside, np.cumsum(edges)[:-1] > 0


def find_one_by_one(
    expression: Expression, data: U8, starts: U32, ends: U32, manner: Manner, budget: Budget
) -> tuple[U32, U32]:
    """The same for pieces of any size, each matched for itself: whole documents, mostly."""
    view = data.data
    found: list[I64] = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if budget.is_spent():
            break
        rows = expression.find_all(view[start:end], manner, budget)
        if len(rows):
            found.append(rows + start)
    if not found:
        return NOTHING, NOTHING
    pairs = np.concatenate(found).astype(np.uint32)
    return pairs[:, 0].copy(), pairs[:, 1].copy()
