"""The tasks of a search, which read the text of the candidates. Threads can run them in any order."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from argosy.search.arrays import F64, U32
from argosy.search.index.index import Index
from argosy.search.index.kernel_tables import KernelTables
from argosy.search.kernels.candidates import BYTES, DOCUMENTS, ROW
from argosy.search.match.collector import Collector
from argosy.search.match.evaluate import SegmentSearch
from argosy.search.match.limits import SearchLimits
from argosy.search.match.literal_query import LiteralQuery, Piece
from argosy.search.match.rank import bm25_scores, scores
from argosy.search.match.spans import Hits, hits_of
from argosy.search.match.top_k import PartHits
from argosy.search.model import Form
from argosy.search.query.tree import Query, ResultKind, Type


class Task(Protocol):
    """A unit of work, which stops early only at a limit."""

    @property
    def cost_bytes(self) -> int:
        """The amount of text to read."""
        ...

    def run(self) -> Collector: ...


class LiteralTask:
    """A literal query on pieces of some indexes, scanned in one call."""

    def __init__(
        self,
        bounds: SearchLimits,
        query: LiteralQuery,
        tables: KernelTables,
        numbers: Sequence[int],
        blocks: U32,
        pieces: Sequence[Piece],
    ) -> None:
        self._bounds = bounds
        self._query = query
        self._tables = tables
        self._numbers = numbers  # of the indexes of the tables, in this search
        self._blocks = blocks
        self._pieces = pieces
        self.cost_bytes = sum([piece[BYTES] for piece in pieces])

    def run(self) -> Collector:
        options, budget = self._bounds.options, self._bounds.budget
        collector = Collector(options)
        numbers = [self._numbers[self._tables.owners[piece[ROW]]] for piece in self._pieces]
        collector.files_considered = sum([piece[DOCUMENTS] for piece in self._pieces])
        if options.estimate_only:
            collector.searched.update(numbers)
            return collector
        total, limits = self._bounds.total, [self._bounds.of_index(number) for number in numbers]
        # A piece is skipped only if every part in it has met its limit.
        if total.is_met or all(limit.is_met for limit in limits) or budget.is_spent():
            collector.skipped.update(numbers)
            collector.limits_hit.update([limit.limit_hit for limit in (total, *limits) if limit.is_met])
            if budget.limit_hit is not None:
                collector.limits_hit.add(budget.limit_hit)
            return collector
        found = self._query.scan(self._tables, self._blocks, self._pieces, counts_only=options.form is Form.COUNT)
        for place, (matches, files) in enumerate(found.sums()):
            number, limit, piece = numbers[place], limits[place], self._pieces[place]
            # Met by an earlier piece. This one is scanned already and still does not count, so that a result depends on
            # the limit and not on how parts were grouped into pieces.
            if total.is_met or limit.is_met:
                found.drop(place)
                collector.skipped.add(number)
                collector.limits_hit.update([each.limit_hit for each in (total, limit) if each.is_met])
                continue
            collector.searched.add(number)
            if files:
                collector.found.add(number)
            collector.matches += matches
            collector.files += files
            collector.files_loaded += piece[DOCUMENTS]
            collector.content_bytes += piece[BYTES]
            limit.count(matches)
            total.count(matches)
        if collector.files and options.form is not Form.COUNT:
            collector.top_k.add(found, found.bm25_scores() if options.use_bm25 else found.scores())
        return collector


class TreeTask:
    """Any query on one part of an index."""

    def __init__(
        self, bounds: SearchLimits, search: SegmentSearch, query: Query, index: Index, part: int, number: int
    ) -> None:
        self._options = bounds.options
        self._budget = bounds.budget
        self._limits = bounds.of_index(number), bounds.total
        self._search = search
        self._index = index
        self._part = part
        self._number = number  # of the index, in this search
        # Before the task is queued, because the sizes of all tasks decide whether threads share them, and postings are
        # fast.
        self._possible = search.possible()
        self._is_for_names = isinstance(query, Type) and query.kind is ResultKind.FILE_NAME

    @property
    def documents(self) -> int:
        """The number of candidate documents."""
        return len(self._possible)

    @property
    def cost_bytes(self) -> int:
        return self._search.cost_bytes(self._possible) if len(self._possible) else 0

    def run(self) -> Collector:
        collector = Collector(self._options)
        collector.files_considered = self.documents
        collector.searched.add(self._number)
        if self._options.estimate_only:
            return collector
        is_cut = has_begun = False
        for documents, hits in self._batches():
            has_begun = True
            is_cut = self._budget.limit_hit is not None  # then files_loaded is unknown for the rest
            collector.files_loaded += len(hits.documents) if is_cut else documents
            collector.matches += hits.matches
            collector.files += len(hits.documents)
            if self._options.form is not Form.COUNT and len(hits.documents):
                collector.top_k.add(PartHits(self._index, self._part, hits), self._scores(hits))
            for limit in self._limits:
                limit.count(hits.matches)
        if collector.files:
            collector.found.add(self._number)
        collector.content_bytes = self._search.content_bytes
        collector.regexps_considered = self._search.regexps_considered
        if is_cut or collector.files_loaded < self.documents:
            collector.limits_hit |= {limit.limit_hit for limit in self._limits if limit.is_met}
            collector.limits_hit |= {self._budget.limit_hit} if self._budget.limit_hit else set()
            # Nothing of it was read, so it does not count as searched.
            if not has_begun:
                collector.searched, collector.skipped = set(), {self._number}
        return collector

    def _batches(self) -> Iterator[tuple[int, Hits]]:
        """The hits of each batch, until all are done or a limit is hit."""
        batches = self._search.batches(self._possible)
        while not any(limit.is_met for limit in self._limits):
            batch = next(batches, None)
            if batch is None:
                return
            documents, found = batch
            yield len(documents), hits_of(found, names_only=self._is_for_names)

    def _scores(self, hits: Hits) -> F64:
        segment = self._index.parts[self._part].segment
        if self._options.use_bm25:
            return bm25_scores(hits, segment)
        sizes = [part.segment.content.documents for part in self._index.parts]
        place, total = sum(sizes[: self._part]), sum(sizes)
        return scores(hits, segment, rank=self._index.repository.rank, first_document=place, documents=total)
