"""Pointer tables through which kernels search many indexes in one call.

A search of one small index takes 12 to 22 µs of Python even without a candidate, more than the search itself: 500 of
them took 6 ms, and take 0.1 ms in one call (decision 0034). So a kernel gets a table with the array addresses of all
parts and handles them in one call.

Nothing checks the addresses that a kernel receives. Only this module computes them, next to the arrays they belong to,
and `KernelTables` keeps those arrays alive. Tables are immutable: when the index set changes, a running search
continues with the tables it started with.
"""

from collections.abc import Collection, Sequence, Set
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from argosy.search.arrays import I64, U32, freeze
from argosy.search.index.index import Index, Part, bitmap_length
from argosy.search.kernels import candidates, scan, spans

SLICE_BLOCKS = 1 << 20  # per kernel call: a few milliseconds, between which a search can be cancelled


class PartRow(NamedTuple):
    """The table rows of a part, and the arrays that only they point to."""

    candidates: I64
    scan: I64
    score: I64
    kept: tuple[U32, ...]


class KernelTables:
    """Indexes in search order, with their tables."""

    def __init__(self, indexes: Sequence[Index], before: "KernelTables | None" = None) -> None:
        """Reuses the rows of `before` for parts that both have."""
        self.indexes = tuple(indexes)
        self.parts = tuple([part for index in self.indexes for part in index.parts])
        # Rows reused by identity: a part is immutable, and computing its row searches its symbols once.
        self._row_by_part: dict[Part, PartRow] = {}
        if before is not None:
            # Only parts still in use are carried over; the rest would keep the arrays of dropped indexes alive.
            known = before._row_by_part
            self._row_by_part = {part: known[part] for part in self.parts if part in known}

    def __len__(self) -> int:
        return len(self.indexes)

    def only(self, names: Collection[str] | None) -> "KernelTables":
        """The tables of the named repositories; None selects all."""
        if names is None:
            return self
        named = names if isinstance(names, Set) else frozenset(names)
        if self._names <= named:
            return self
        return self.of([index for index in self.indexes if index.repository.name in named])

    def of(self, indexes: Sequence[Index]) -> "KernelTables":
        """The tables of some of its indexes, in the same order."""
        if len(indexes) == len(self.indexes):  # a subset of the same size is the whole
            return self
        assert len(self._rows) == len(self.parts)  # computed here once, not for every selection
        return KernelTables(indexes, self)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset([index.repository.name for index in self.indexes])

    @cached_property
    def firsts(self) -> list[int]:
        """The first row of each index, and the number of rows."""
        firsts = [0]
        for index in self.indexes:
            firsts.append(firsts[-1] + len(index.parts))
        return firsts

    @cached_property
    def owners(self) -> list[int]:
        """The number of the index of each row."""
        return [place for place, index in enumerate(self.indexes) for _ in index.parts]

    @cached_property
    def slices(self) -> list[tuple[int, int]]:
        """Ranges of indexes that are looked up in one kernel call."""
        slices, first, blocks = [], 0, 0
        for place, index in enumerate(self.indexes):
            blocks += sum(part.segment.content.blocks for part in index.parts)
            if blocks >= SLICE_BLOCKS or place + 1 == len(self.indexes):
                slices.append((first, place + 1))
                first, blocks = place + 1, 0
        return slices

    @cached_property
    def candidate_rows(self) -> I64:
        """For `select_in_parts`: a row per part."""
        return _table([row.candidates for row in self._rows], candidates.COLUMNS)

    @cached_property
    def scan_rows(self) -> I64:
        """For `scan_parts`."""
        return _table([row.scan for row in self._rows], scan.COLUMNS)

    @cached_property
    def score_rows(self) -> I64:
        """For `score_parts`. Tie breakers depend on the index, because a part can be in several."""
        # Copied, unlike the other tables: these columns are written below.
        table = np.array([row.score for row in self._rows], np.int64).reshape(len(self.parts), spans.COLUMNS)
        for place, index in enumerate(self.indexes):
            sizes = [part.segment.content.documents for part in index.parts]
            own = table[self.firsts[place] : self.firsts[place + 1]]
            # Documents are numbered through all parts of an index, because ties are broken by their order in the
            # repository.
            own[:, spans.FIRST_DOCUMENT] = np.cumsum([0, *sizes])[:-1]
            own[:, spans.DOCUMENTS] = sum(sizes)
            own[:, spans.RANK] = index.repository.rank
        scores: I64 = freeze(table)
        return scores

    @cached_property
    def _rows(self) -> list[PartRow]:
        for part in self.parts:
            if part not in self._row_by_part:
                self._row_by_part[part] = _row(part)  # kept for the tables that replace these
        return [self._row_by_part[part] for part in self.parts]


def _row(part: Part) -> PartRow:
    segment = part.segment
    content, postings, symbols = segment.content, segment.postings, segment.symbols
    odd_folds: U32 = freeze(np.array(segment.odd_folds, np.uint32))
    first_symbols: U32 = freeze(np.searchsorted(symbols.starts, content.starts).astype(np.uint32))
    choice = _row_of(
        {
            candidates.PRESENT: _address(postings.present),
            candidates.RANKS: _address(postings.ranks),
            candidates.OFFSETS: _address(postings.offsets),
            candidates.POSTINGS: _address(postings.blocks),
            candidates.BLOCK_STARTS: _address(content.block_starts),
            candidates.BLOCK_DOCS: _address(content.block_docs),
            candidates.BRANCHES: _address(part.branches),
            candidates.ODD_FOLDS: _address(odd_folds),
            candidates.BLOCKS: content.blocks,
            candidates.ALL_DOCUMENTS: content.documents,
            candidates.BITMAP_WORDS: bitmap_length(content.blocks),
            candidates.TRAITS: segment.traits,
            candidates.ODD_FOLDS_COUNT: len(odd_folds),
        }
    )
    scanned = _row_of(
        {
            scan.DATA: _address(content.data),
            scan.BLOCK_STARTS: _address(content.block_starts),
            scan.BLOCK_DOCS: _address(content.block_docs),
            scan.NAMES: _address(segment.names.data),
            scan.NAME_STARTS: _address(segment.names.starts),
            scan.DATA_BYTES: len(content.data),
        }
    )
    scored = _row_of(
        {
            spans.DATA: _address(content.data),
            spans.NAMES: _address(segment.names.data),
            spans.NAME_STARTS: _address(segment.names.starts),
            spans.CATEGORIES: _address(segment.table.categories),
            spans.SYMBOL_STARTS: _address(symbols.starts),
            spans.SYMBOL_LENGTHS: _address(symbols.lengths),
            spans.SYMBOL_POINTS: _address(symbols.points),
            spans.FIRST_SYMBOLS: _address(first_symbols),
            spans.DATA_BYTES: len(content.data),
            spans.NAMES_BYTES: len(segment.names.data),
            spans.SYMBOLS: len(symbols.starts),
            spans.SYMBOL_BYTES_MAX: int(symbols.lengths.max(initial=0)),
            # Placeholders; `score_rows` sets them for each index that contains the part.
            spans.FIRST_DOCUMENT: 0,
            spans.DOCUMENTS: 0,
            spans.RANK: 0,
        }
    )
    return PartRow(choice, scanned, scored, (odd_folds, first_symbols))


def _address(array: npt.NDArray[Any]) -> int:
    # Not `array.ctypes.data`, which creates ctypes objects at every access.
    address: int = array.__array_interface__["data"][0]
    return address


def _row_of(columns: dict[int, int]) -> I64:
    # A column that is missing raises KeyError, so a table cannot be shifted against its kernel.
    return np.array([columns[column] for column in range(len(columns))], np.int64)


def _table(rows: list[I64], columns: int) -> I64:
    table: I64 = freeze(np.array(rows, np.int64).reshape(len(rows), columns))
    return table
