"""A prepared literal: its bytes, the rarest of them, and the trigrams that a block must have."""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from argosy.search.arrays import I64, U8, U16, U32, freeze
from argosy.search.index.index import Postings, bitmap_length
from argosy.search.kernels.candidates import intersect, unite
from argosy.search.kernels.scan import scan
from argosy.search.kernels.trigrams import CLASS_BITS, CLASSES, keys_of
from argosy.search.match.limits import Budget
from argosy.search.match.spans import NOTHING, Mask

# Bytes of source text by descending frequency, counted over C, Python and prose. Missing bytes are rarer.
_BY_FREQUENCY = b" etrasnio\nl_dc,pufm'().hgy\"b=\t:-x0vkw*E1TN[]ASC2I#R`PLO\\/D>F;M43qU6|zB{}58G+H9jV7KXW~<@Y?&!%Z^Q$J"
_FREQUENCY = {byte: len(_BY_FREQUENCY) - place for place, byte in enumerate(_BY_FREQUENCY)}

NO_KEYS: I64 = freeze(np.empty(0, np.int64))
CLASS_MASK = (1 << CLASS_BITS) - 1
_LOWER = 32  # the bit that makes an ASCII letter lower case
_ONE_CASE = [_FREQUENCY.get(byte, 0) for byte in range(256)]
_BOTH_CASES = [each + (_ONE_CASE[byte - _LOWER] if 97 <= byte <= 122 else 0) for byte, each in enumerate(_ONE_CASE)]

_SCAN_POSITIONS = 16_384  # matches found between two budget checks: a buffer of 64 KiB
_FOLDS = bytes(_LOWER if 97 <= byte <= 122 else 0 for byte in range(256))
_NO_FOLDS = bytes(256)


class Needle:
    """A literal without newline or NUL, case-sensitive or ignoring ASCII case."""

    def __init__(self, text: bytes, *, is_folded: bool) -> None:
        folded = text.lower() if is_folded else text
        self.text = folded
        self.is_folded = is_folded
        self.keys: npt.NDArray[np.int64] = keys_of(folded)

    # Scan data is computed on first use: a literal whose keys are nowhere is never scanned for.

    @cached_property
    def pattern(self) -> U8:
        return np.frombuffer(self.text, np.uint8)

    @cached_property
    def folds(self) -> U8:
        """The bit to ignore, for each byte."""
        return np.frombuffer(self.text.translate(_FOLDS if self.is_folded else _NO_FOLDS), np.uint8)

    @cached_property
    def rare(self) -> npt.NDArray[np.int64]:
        """The positions of its bytes, rarest byte first."""
        frequencies, text = _BOTH_CASES if self.is_folded else _ONE_CASE, self.text
        # All positions, because the scan compares one after another while candidates are left.
        places = sorted(range(len(text)), key=[frequencies[byte] for byte in text].__getitem__)
        return freeze(np.array(places, np.int64))

    @cached_property
    def pair_keys(self) -> npt.NDArray[np.int64]:
        """All keys that begin with these two bytes, which are contiguous."""
        # The third class is in the lowest bits of a key, so the keys of all third bytes are consecutive.
        first = (int(CLASSES[self.text[0]]) << 6 | int(CLASSES[self.text[1]])) << 6
        keys: npt.NDArray[np.int64] = freeze(np.arange(first, first + 64, dtype=np.int64))
        return keys

    @property
    def lookups(self) -> npt.NDArray[np.int64]:
        """The keys looked up to find its blocks."""
        return self.pair_keys if len(self.text) == 2 else self.keys

    def blocks(self, postings: Postings, blocks: int) -> U32:
        """The blocks that can contain it, ascending."""
        if len(self.text) >= 3:
            return blocks_with_all(self.keys, postings, blocks)
        if len(self.text) == 2:
            return blocks_with_any(self.pair_keys, postings, blocks)
        return np.arange(blocks, dtype=np.uint32)  # a single byte is in no trigram of its own: every block is read

    def find(self, data: U8, starts: U32, ends: U32, budget: Budget, *, with_overlaps: bool = False) -> U32:
        """The positions in these ranges at which it begins, ascending, until the budget is spent."""
        starts, ends = freeze(starts), freeze(ends)
        advance = 1 if with_overlaps else len(self.text)

        def resume(at: int, position: int, out: U32) -> tuple[int, int, int]:
            return scan(data, starts, ends, self.pattern, self.folds, self.rare, advance, at, position, out)

        return collect_positions(resume, len(starts), budget)


def find_each(
    needles: Sequence[Needle], data: U8, starts: U32, ends: U32, budget: Budget, *, with_overlaps: bool = False
) -> list[U32]:
    """The positions of each needle; none for those not searched before the budget was spent."""
    found: list[U32] = []
    for needle in needles:
        is_over = bool(found) and budget.is_spent()
        # The first needle is always searched, because the caller has just checked the budget.
        found.append(NOTHING if is_over else needle.find(data, starts, ends, budget, with_overlaps=with_overlaps))
    return found


def frequency(byte_set: Iterable[int]) -> int:
    """The relative frequency of a byte set, on an arbitrary scale."""
    return sum(_FREQUENCY.get(byte, 0) for byte in byte_set)


def collect_positions(resume: Callable[[int, int, U32], tuple[int, int, int]], ranges: int, budget: Budget) -> U32:
    """Runs a scan that fills a buffer and returns where to resume (range and position), until it is done.

    The budget is checked only between buffers: the first is always filled, because the caller has just checked it.
    """
    found: list[U32] = []
    at = position = 0
    while at < ranges:
        if found and budget.is_spent():
            break
        out = np.empty(_SCAN_POSITIONS, np.uint32)
        count, at, position = resume(at, position, out)
        found.append(out[:count])
    return found[0].copy() if len(found) == 1 else np.concatenate([NOTHING, *found])


def blocks_with_all(keys: npt.NDArray[np.int64], postings: Postings, blocks: int) -> U32:
    """The blocks with all of these keys, ascending."""
    out = np.empty(blocks, np.uint32)
    return out[: intersect(keys, bitmap_length(blocks), *_arrays(postings), out)]


def keys_without(classes: Collection[int], keys: I64) -> I64:
    """The keys that contain none of these classes."""
    shifts = (0, CLASS_BITS, 2 * CLASS_BITS)
    remaining = [key for key in keys.tolist() if not any(key >> shift & CLASS_MASK in classes for shift in shifts)]
    found: I64 = freeze(np.array(remaining, np.int64))
    return found


def blocks_with_any(keys: npt.NDArray[np.int64], postings: Postings, blocks: int) -> U32:
    """The blocks with at least one of the keys, ascending."""
    return np.flatnonzero(mask_of_any(keys, postings, blocks)).astype(np.uint32)


def mask_of_any(keys: npt.NDArray[np.int64], postings: Postings, blocks: int) -> Mask:
    """`blocks_with_any` as a mask over all blocks."""
    bits: U16 = np.zeros(bitmap_length(blocks), np.uint16)
    unite(keys, len(bits), *_arrays(postings), bits)
    return np.unpackbits(bits.view(np.uint8), count=blocks, bitorder="little").view(np.bool_)


def _arrays(postings: Postings) -> tuple[npt.NDArray[np.uint64], U32, U32, U16]:
    return postings.present, postings.ranks, postings.offsets, postings.blocks
