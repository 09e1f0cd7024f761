"""One query on many indexes: reduced for each repository, cut into tasks, gathered into one answer.

The repository's name, flags and branches reduce the query first; what is left is asked of each segment, best documents
first, until everything is seen or a bound is met. A task is one segment, or some of its documents: tasks may run in any
order and in threads. Only the files that are shown are turned into something to look at.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from argosy.search.index.index import Index
from argosy.search.index.segment import SEGMENT_BLOCKS_MAX
from argosy.search.match.atoms import Atoms
from argosy.search.match.bm25 import bm25_scores
from argosy.search.match.budget import Budget
from argosy.search.match.evaluate import SegmentSearch
from argosy.search.match.hits import Hits, hits_of
from argosy.search.match.outcome import Outcome, Quota
from argosy.search.match.plain import Plain
from argosy.search.match.rank import scores
from argosy.search.model import Answer, Form, Options, Reached
from argosy.search.query.simplify import boosted, conjunction, disjunction, for_repository, negation, typed
from argosy.search.query.tree import FALSE, And, Boost, Const, Kind, Not, Or, Query, Type


class Search:
    """A query made ready: its patterns are compiled once, and threads may share it."""

    def __init__(self, query: Query, options: Options, budget: Budget) -> None:
        self.options = options
        self.budget = budget
        self._query = query
        self._atoms = Atoms(query)
        self._total = Quota(options.total_match_limit, Reached.TOTAL_MATCHES)
        self._numbers = itertools.count()

    def tasks(self, index: Index, outcome: Outcome) -> "list[Task]":
        """What is to be done to search the index; if that is nothing, `outcome` is told why."""
        number = next(self._numbers)
        if self.is_over(outcome):
            outcome.skipped.add(number)
            return []
        query = self._reduced(index)
        if self.is_over(outcome):               # `type:repo` may have had to look at text
            outcome.skipped.add(number)
            return []
        if query == FALSE:
            outcome.indexes_excluded += 1
            return []
        quotas = (Quota(self.options.index_match_limit, Reached.INDEX_MATCHES), self._total)
        tasks = [Task(self, index, part, work, quotas, number) for part, work in self._works(query, index, outcome)]
        if not tasks:
            outcome.searched.add(number)
        return tasks

    def _works(self, query: Query, index: Index, outcome: Outcome) -> "Iterator[tuple[int, Work]]":
        """The parts of the index that it does not rule out, and what is to be done there."""
        plain = Plain.of(query, self._atoms, self.budget, counts_only=self.options.form is Form.COUNT)
        scratch = np.empty(SEGMENT_BLOCKS_MAX if plain else 0, np.uint32)
        for number, part in enumerate(index.parts):
            work: Work | bool = plain.search(part, scratch) if plain else True
            if work is True:
                search = self.segment_search(query, index, number)
                work = TreeSearch(search, query)
                outcome.looked_up(search.lookups, search.index_bytes)
            if work and work.documents:
                yield from ((number, piece) for piece in work.pieces())
        if plain:
            outcome.looked_up(plain.lookups, plain.index_bytes)

    def is_over(self, outcome: Outcome) -> bool:
        """Whether nothing further is to be started; the outcome is told why."""
        if self._total.is_met:
            outcome.reached.add(Reached.TOTAL_MATCHES)
        if self.budget.is_spent() and self.budget.reached is not None:
            outcome.reached.add(self.budget.reached)
        return self._total.is_met or self.budget.reached is not None

    def segment_search(self, query: Query, index: Index, part: int) -> SegmentSearch:
        is_count = self.options.form is Form.COUNT
        return SegmentSearch(
            query, self._atoms, index.parts[part], index.repository, self.budget, counts_only=is_count
        )

    def _reduced(self, index: Index) -> Query:
        """What is left to ask of the index's documents; FALSE if none can match. The query's own type stays on top."""
        asked = self._query.child if isinstance(self._query, Type) else self._query
        query = _told(for_repository(asked, index.repository), lambda child: self._has_match(child, index))
        return typed(self._query.kind, query) if isinstance(self._query, Type) else query

    def _has_match(self, query: Query, index: Index) -> bool:
        for part in range(len(index.parts)):
            search = self.segment_search(query, index, part)
            if any(found.mask.any() for _, found in search.batches(search.possible())):
                return True
        return False


class Work(Protocol):
    """What is left to do in one part of an index: the index has been asked, the text has not."""

    @property
    def documents(self) -> int:
        """How many the index leaves in question."""
        ...

    @property
    def cost_bytes(self) -> int:
        """How much text is to be looked at."""
        ...

    @property
    def content_bytes(self) -> int:
        """How much has been."""
        ...

    @property
    def regexps_considered(self) -> int:
        """How many documents a regular expression has been asked about."""
        ...

    def pieces(self) -> "Iterator[Work]":
        """The same in parts that threads may share."""
        ...

    def hits(self) -> Iterator[tuple[int, Hits]]:
        """What was found, batch by batch, each with the number of documents looked at."""
        ...


class TreeSearch:
    """A query of any kind."""

    def __init__(self, search: SegmentSearch, query: Query) -> None:
        self._search = search
        self._possible = search.possible()
        self._is_for_names = isinstance(query, Type) and query.kind is Kind.FILE_NAME

    @property
    def documents(self) -> int:
        return len(self._possible)

    @property
    def cost_bytes(self) -> int:
        return self._search.cost_bytes(self._possible) if len(self._possible) else 0

    @property
    def content_bytes(self) -> int:
        return self._search.content_bytes

    @property
    def regexps_considered(self) -> int:
        return self._search.regexps_considered

    def pieces(self) -> Iterator[Work]:
        yield self

    def hits(self) -> Iterator[tuple[int, Hits]]:
        for documents, found in self._search.batches(self._possible):
            yield len(documents), hits_of(found, names_only=self._is_for_names)


class Task:
    """Work on one part of an index, under the bounds of the search."""

    def __init__(
        self, search: Search, index: Index, part: int, work: Work, quotas: Sequence[Quota], number: int
    ) -> None:
        self._options = search.options
        self._budget = search.budget
        self._index = index
        self._part = part
        self._work = work
        self._quotas = quotas
        self._number = number                   # the index's, in this search

    @property
    def cost_bytes(self) -> int:
        return self._work.cost_bytes

    def run(self) -> Outcome:
        outcome = Outcome(self._options)
        outcome.files_considered = self._work.documents
        outcome.searched.add(self._number)
        if self._options.estimate_only:
            return outcome
        is_cut = has_begun = False
        for documents, hits in self._batches():
            has_begun = True
            is_cut = self._budget.reached is not None           # then who knows what was not seen
            outcome.files_loaded += len(hits.documents) if is_cut else documents
            outcome.matches += hits.matches
            outcome.files += len(hits.documents)
            if self._options.form is not Form.COUNT and len(hits.documents):
                outcome.shortlist.add(self._index, self._part, hits, self._scores(hits))
            for quota in self._quotas:
                quota.take(hits.matches)
        outcome.content_bytes = self._work.content_bytes
        outcome.regexps_considered = self._work.regexps_considered
        if is_cut or outcome.files_loaded < self._work.documents:
            outcome.reached |= {quota.reached for quota in self._quotas if quota.is_met}
            outcome.reached |= {self._budget.reached} if self._budget.reached else set()
            if not has_begun:
                outcome.searched, outcome.skipped = set(), {self._number}
        return outcome

    def _batches(self) -> Iterator[tuple[int, Hits]]:
        """What was found, batch by batch, until all is seen or a bound is met."""
        batches = self._work.hits()
        while not any(quota.is_met for quota in self._quotas):
            batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def _scores(self, hits: Hits) -> npt.NDArray[np.float64]:
        segment = self._index.parts[self._part].segment
        if self._options.use_bm25:
            return bm25_scores(hits, segment)
        sizes = [part.segment.content.documents for part in self._index.parts]
        place, total = sum(sizes[: self._part]), sum(sizes)
        return scores(hits, segment, rank=self._index.repository.rank, first_document=place, documents=total)


def search_index(index: Index, query: Query, options: Options, budget: Budget) -> Answer:
    """The answer of one index."""
    return search_indexes([index], query, options, budget)


def search_indexes(indexes: Sequence[Index], query: Query, options: Options, budget: Budget) -> Answer:
    """The answer of several indexes, one after the other in this thread, in the order given."""
    began = budget.now()
    search, outcome = Search(query, options, budget), Outcome(options)
    for index in indexes:
        for task in search.tasks(index, outcome):
            outcome.merge(task.run())
    return outcome.answer(began, budget)


def _told(query: Query, has_match: Callable[[Query], bool]) -> Query:
    """`type:repo` beneath other nodes turned into a constant: the repository has a match, or has none."""
    match query:
        case And(children):
            return conjunction(_told(child, has_match) for child in children)
        case Or(children):
            return disjunction(_told(child, has_match) for child in children)
        case Not(child):
            return negation(_told(child, has_match))
        case Boost(child, factor):
            return boosted(_told(child, has_match), factor)
        case Type(Kind.REPO, child):
            return Const(has_match(_told(child, has_match)))
        case Type(kind, child):
            return typed(kind, _told(child, has_match))
        case _:
            return query
