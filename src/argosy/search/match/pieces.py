"""Runs a regular expression over many short pieces of text in one call.

The pieces are copied to one buffer with separators, because an RE2 call per piece would cost more than the matching. A
match inside a separator is ignored. Pieces touched by a match that crosses into or out of a separator are matched
again, one by one.
"""

import numpy as np

from argosy.search.arrays import I64, U8, U32, Flags, freeze
from argosy.search.kernels.lines import gather
from argosy.search.match.budget import Budget
from argosy.search.match.expression import DecodeMode, Expression
from argosy.search.match.spans import NOTHING, merge_spans


def find_in_pieces(
    expression: Expression, data: U8, starts: U32, ends: U32, mode: DecodeMode, budget: Budget
) -> tuple[U32, U32]:
    """The matches inside the pieces as (starts, ends) in the data, until the budget is spent."""
    if len(starts) == 0:
        return NOTHING, NOTHING
    if expression.has_text_anchors:
        return find_one_by_one(expression, data, starts, ends, mode, budget)
    text, begins = gather(data, freeze(starts), freeze(ends))
    found = expression.find_all(text, mode, budget)
    if len(found) == 0:
        return NOTHING, NOTHING
    first = np.searchsorted(begins, found[:, 0], "right") - 1  # the piece in or after which each match begins
    stops = begins + (ends.astype(np.int64) - starts)
    is_inside, is_again = _classify(found, first, begins, stops)
    good = is_inside & ~is_again[first]
    back = found[good] + (starts.astype(np.int64) - begins)[first[good]][:, None]
    sound = back[:, 0].astype(np.uint32), back[:, 1].astype(np.uint32)
    if not is_again.any():
        return sound
    return merge_spans([sound, find_one_by_one(expression, data, starts[is_again], ends[is_again], mode, budget)])


def _classify(found: I64, first: I64, begins: I64, stops: I64) -> tuple[Flags, Flags]:
    """Which matches are inside one piece, and which pieces are touched by one that is not."""
    last = np.searchsorted(begins, found[:, 1] - 1, "right") - 1
    is_inside: Flags = (last == first) & (found[:, 1] <= stops[last])
    is_astray = ~is_inside & ((last > first) | (found[:, 0] < stops[first]))
    edges = np.zeros(len(begins) + 1, np.int64)  # +1 at the start of a touched range of pieces, -1 after its end
    np.add.at(edges, (first + (found[:, 0] >= stops[first]))[is_astray], 1)
    np.add.at(edges, last[is_astray] + 1, -1)
    return is_inside, np.cumsum(edges)[:-1] > 0


def find_one_by_one(
    expression: Expression, data: U8, starts: U32, ends: U32, mode: DecodeMode, budget: Budget
) -> tuple[U32, U32]:
    """The same with a call per piece, for pieces of any size such as whole documents."""
    view = data.data
    found: list[I64] = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if budget.is_spent():
            break
        rows = expression.find_all(view[start:end], mode, budget)
        if len(rows):
            found.append(rows + start)
    if not found:
        return NOTHING, NOTHING
    pairs = np.concatenate(found).astype(np.uint32)
    return pairs[:, 0].copy(), pairs[:, 1].copy()
