"""What is left to do of a search once the indexes have been asked: tasks, which threads may do in any order."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from argosy.search.index.index import Index
from argosy.search.index.kernel_tables import Roll
from argosy.search.index.segment import F64, U32
from argosy.search.kernels.candidates import BYTES, DOCUMENTS, ROW
from argosy.search.match.bm25 import bm25_scores
from argosy.search.match.budget import Budget
from argosy.search.match.collector import Outcome, Quota
from argosy.search.match.evaluate import SegmentSearch
from argosy.search.match.hits import Hits, hits_of
from argosy.search.match.literal_query import Piece, Plain
from argosy.search.match.rank import scores
from argosy.search.match.top_k import PartHits
from argosy.search.model import Form, LimitHit, Options
from argosy.search.query.tree import Kind, Query, Type


class Task(Protocol):
    """Work that is done in one go, unless a bound is met."""

    @property
    def cost_bytes(self) -> int:
        """How much text is to be looked at."""
        ...

    def run(self) -> Outcome: ...


class Bounds:
    """What all tasks of a search are bound by."""

    def __init__(self, options: Options, budget: Budget) -> None:
        self.options = options
        self.budget = budget
        self.total = Quota(options.total_match_limit, LimitHit.TOTAL_MATCHES)
        self._quotas: dict[int, Quota] = {}

    def of_index(self, number: int) -> Quota:
        quota = self._quotas.get(number)
        if quota is None:
            quota = self._quotas.setdefault(number, Quota(self.options.index_match_limit, LimitHit.INDEX_MATCHES))
        return quota


class Bundle:
    """A plain query on pieces of some indexes, whose text is looked at in one go."""

    def __init__(
        self, bounds: Bounds, plain: Plain, roll: Roll, numbers: Sequence[int], blocks: U32, pieces: Sequence[Piece]
    ) -> None:
        self._bounds = bounds
        self._plain = plain
        self._roll = roll
        self._numbers = numbers  # of the roll's indexes, in this search
        self._blocks = blocks
        self._pieces = pieces
        self.cost_bytes = sum([piece[BYTES] for piece in pieces])

    def run(self) -> Outcome:
        options, budget = self._bounds.options, self._bounds.budget
        outcome = Outcome(options)
        numbers = [self._numbers[self._roll.owners[piece[ROW]]] for piece in self._pieces]
        outcome.files_considered = sum([piece[DOCUMENTS] for piece in self._pieces])
        if options.estimate_only:
            outcome.searched.update(numbers)
            return outcome
        total, quotas = self._bounds.total, [self._bounds.of_index(number) for number in numbers]
        if total.is_met or all(quota.is_met for quota in quotas) or budget.is_spent():
            outcome.skipped.update(numbers)
            outcome.limits_hit.update([quota.limit_hit for quota in (total, *quotas) if quota.is_met])
            if budget.limit_hit is not None:
                outcome.limits_hit.add(budget.limit_hit)
            return outcome
        finds = self._plain.finds(self._roll, self._blocks, self._pieces, counts_only=options.form is Form.COUNT)
        for place, (matches, files) in enumerate(finds.sums()):
            number, quota, piece = numbers[place], quotas[place], self._pieces[place]
            if total.is_met or quota.is_met:  # by an earlier piece: this one was not to be seen
                finds.drop(place)
                outcome.skipped.add(number)
                outcome.limits_hit.update([each.limit_hit for each in (total, quota) if each.is_met])
                continue
            outcome.searched.add(number)
            if files:
                outcome.found.add(number)
            outcome.matches += matches
            outcome.files += files
            outcome.files_loaded += piece[DOCUMENTS]
            outcome.content_bytes += piece[BYTES]
            quota.take(matches)
            total.take(matches)
        if outcome.files and options.form is not Form.COUNT:
            outcome.shortlist.add(finds, finds.bm25_scores() if options.use_bm25 else finds.scores())
        return outcome


class TreeTask:
    """A query of any kind on one part of an index."""

    def __init__(
        self, bounds: Bounds, search: SegmentSearch, query: Query, index: Index, part: int, number: int
    ) -> None:
        self._options = bounds.options
        self._budget = bounds.budget
        self._quotas = bounds.of_index(number), bounds.total
        self._search = search
        self._index = index
        self._part = part
        self._number = number  # the index's, in this search
        self._possible = search.possible()
        self._is_for_names = isinstance(query, Type) and query.kind is Kind.FILE_NAME

    @property
    def documents(self) -> int:
        """How many the index leaves in question."""
        return len(self._possible)

    @property
    def cost_bytes(self) -> int:
        return self._search.cost_bytes(self._possible) if len(self._possible) else 0

    def run(self) -> Outcome:
        outcome = Outcome(self._options)
        outcome.files_considered = self.documents
        outcome.searched.add(self._number)
        if self._options.estimate_only:
            return outcome
        is_cut = has_begun = False
        for documents, hits in self._batches():
            has_begun = True
            is_cut = self._budget.limit_hit is not None  # then who knows what was not seen
            outcome.files_loaded += len(hits.documents) if is_cut else documents
            outcome.matches += hits.matches
            outcome.files += len(hits.documents)
            if self._options.form is not Form.COUNT and len(hits.documents):
                outcome.shortlist.add(PartHits(self._index, self._part, hits), self._scores(hits))
            for quota in self._quotas:
                quota.take(hits.matches)
        if outcome.files:
            outcome.found.add(self._number)
        outcome.content_bytes = self._search.content_bytes
        outcome.regexps_considered = self._search.regexps_considered
        if is_cut or outcome.files_loaded < self.documents:
            outcome.limits_hit |= {quota.limit_hit for quota in self._quotas if quota.is_met}
            outcome.limits_hit |= {self._budget.limit_hit} if self._budget.limit_hit else set()
            if not has_begun:
                outcome.searched, outcome.skipped = set(), {self._number}
        return outcome

    def _batches(self) -> Iterator[tuple[int, Hits]]:
        """What was found, batch by batch, until all is seen or a bound is met."""
        batches = self._search.batches(self._possible)
        while not any(quota.is_met for quota in self._quotas):
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
