"""Runs one query on many indexes: reduces it for each repository and splits it into tasks.

The query is first reduced by the name, flags and branches of each repository. The rest is evaluated on each segment,
best documents first, until all are done or a limit is hit. A single literal is searched in all segments at once. Tasks
can run in any order, in threads. File matches are created only for the files that are shown.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from argosy.search.index.index import Index
from argosy.search.index.kernel_tables import KernelTables
from argosy.search.kernels.candidates import PAST_BLOCK, ROW, UNDECIDED
from argosy.search.match.atoms import Atoms, IndexFilter
from argosy.search.match.collector import Collector
from argosy.search.match.evaluate import SegmentSearch
from argosy.search.match.limits import Budget, SearchLimits
from argosy.search.match.literal_query import LiteralQuery, Piece, group_pieces
from argosy.search.match.tasks import LiteralTask, Task, TreeTask
from argosy.search.model import Form, LimitHit, Options, Repository, SearchResult
from argosy.search.query.simplify import conjunction, disjunction, for_repository, negation, with_boost, with_type
from argosy.search.query.tree import (
    FALSE,
    And,
    Boost,
    Const,
    FileNameSet,
    Language,
    Not,
    Or,
    Query,
    Regexp,
    ResultKind,
    Substring,
    Symbol,
    Type,
)

_ANY_REPOSITORY = Repository("")  # stands for any repository, for queries about files only


@dataclass(frozen=True, slots=True, eq=False)
class ReducedQuery:
    """The query reduced for one index."""

    query: Query
    index: Index
    number: int

    def atom_ids(self) -> tuple[int, ...]:
        """The same key for the same atoms: reducing a query preserves the atom objects."""
        return tuple(map(id, self.query.children)) if isinstance(self.query, And) else (id(self.query),)


class Search:
    """A prepared query: patterns are compiled once. Thread-safe."""

    def __init__(self, query: Query, options: Options, budget: Budget) -> None:
        self.options = options
        self.budget = budget
        self._query = query
        self._atoms = Atoms(query)
        self._bounds = SearchLimits(options, budget)
        # Most queries reduce alike for every repository; then all indexes are searched with one kernel call.
        self._common = _reduce(query, _ANY_REPOSITORY, bool) if _is_about_files(query) else None
        self._reads_to_reduce = _has_type_repo(query)  # `type:repo` can be reduced only by reading text
        self._seen = 0  # number of indexes so far: each has a number in this search

    def tasks(self, tables: KernelTables, collector: Collector) -> list[Task]:
        """The tasks that search these indexes, in order. Indexes without tasks are recorded in `collector`."""
        numbers = range(self._seen, self._seen + len(tables))
        self._seen = numbers.stop
        if self._common is not None and self._common != FALSE:
            return self._common_tasks(self._common, tables, numbers, collector)
        tasks: list[Task] = []
        # Consecutive indexes with the same reduced query share kernel calls.
        # Only consecutive ones, because tasks must stay in search order.
        for _, alike in itertools.groupby(self._reduce_queries(tables, numbers, collector), key=ReducedQuery.atom_ids):
            group = list(alike)
            indexes = tables.of([each.index for each in group])
            tasks += self._common_tasks(group[0].query, indexes, [each.number for each in group], collector)
        return tasks

    def _reduce_queries(
        self, tables: KernelTables, numbers: Sequence[int], collector: Collector
    ) -> Iterator[ReducedQuery]:
        """The reduced query of each index, unless it is always false."""
        for number, index in zip(numbers, tables.indexes, strict=True):
            if self.is_over(collector):
                collector.skipped.add(number)
                continue
            query = self._reduce_for(index)
            # The limit was hit while reading, so the reduction is not to be trusted.
            if self._reads_to_reduce and self.is_over(collector):
                collector.skipped.add(number)
            elif query == FALSE:
                collector.indexes_excluded += 1
            else:
                yield ReducedQuery(query, index, number)

    def _common_tasks(
        self, query: Query, tables: KernelTables, numbers: Sequence[int], collector: Collector
    ) -> list[Task]:
        """The tasks for indexes with the same reduced query."""
        if literal := LiteralQuery.of(query, self._atoms):
            return self._literal_tasks(literal, query, tables, numbers, collector)
        return self._tree_tasks(query, tables, numbers, collector)

    def _tree_tasks(
        self, query: Query, tables: KernelTables, numbers: Sequence[int], collector: Collector
    ) -> list[Task]:
        """Tasks per part, without the parts that the index filter skips."""
        tasks: list[Task] = []
        index_filter = IndexFilter.of(query, self._atoms)
        for first, past in tables.slices:
            if self.is_over(collector):
                collector.skipped.update(numbers[first:])
                break
            rows: Iterable[int] = range(tables.firsts[first], tables.firsts[past])
            if index_filter is not None:
                rows, lookups, index_bytes = index_filter.rows(tables, tables.firsts[first], tables.firsts[past])
                collector.record_lookup(lookups, index_bytes)
            busy = 0  # indexes with tasks, or skipped
            for owner, own in itertools.groupby(rows, key=tables.owners.__getitem__):
                reduced = ReducedQuery(query, tables.indexes[owner], numbers[owner])
                if self.is_over(collector):
                    collector.skipped.add(reduced.number)
                    busy += 1
                    continue
                found = [
                    task for row in own if (task := self._tree_task(reduced, row - tables.firsts[owner], collector))
                ]
                busy += bool(found)
                tasks += found
            # An index counts as filtered only if none of its parts is left to search.
            collector.indexes_filtered += past - first - busy
        return tasks

    def _literal_tasks(
        self, literal: LiteralQuery, query: Query, tables: KernelTables, numbers: Sequence[int], collector: Collector
    ) -> list[Task]:
        """Tasks for all indexes together, or for as many as one kernel call handles."""
        tasks: list[Task] = []
        for first, past in tables.slices:
            if self.is_over(collector):
                collector.skipped.update(numbers[first:])
                break
            candidates = literal.select_candidates(tables, tables.firsts[first], tables.firsts[past])
            collector.record_lookup(candidates.lookups, candidates.index_bytes)
            owners, busy = tables.owners, set()  # indexes with tasks
            for is_undecided, alike in itertools.groupby(candidates.pieces, key=_is_undecided):
                pieces = list(alike)
                if not is_undecided:
                    busy.update([owners[piece[ROW]] for piece in pieces])
                    groups = group_pieces(tables, candidates.blocks, pieces)
                    tasks += [
                        LiteralTask(self._bounds, literal, tables, numbers, candidates.blocks, each) for each in groups
                    ]
                    continue
                for row in [piece[ROW] for piece in pieces]:
                    owner = owners[row]
                    reduced = ReducedQuery(query, tables.indexes[owner], numbers[owner])
                    if task := self._tree_task(reduced, row - tables.firsts[owner], collector):
                        busy.add(owner)
                        tasks.append(task)
            collector.indexes_filtered += past - first - len(busy)
        return tasks

    def _tree_task(self, reduced: ReducedQuery, part: int, collector: Collector) -> TreeTask | None:
        search = self.segment_search(reduced.query, reduced.index, part)
        # Created even if it has no candidates, because the lookups it made are counted.
        task = TreeTask(self._bounds, search, reduced.query, reduced.index, part, reduced.number)
        collector.record_lookup(search.lookups, search.index_bytes)
        return task if task.documents else None

    def is_over(self, collector: Collector) -> bool:
        """Whether to start no further work; records the limit in the collector."""
        total = self._bounds.total
        if total.is_met:
            collector.limits_hit.add(LimitHit.TOTAL_MATCHES)
        if self.budget.is_spent() and self.budget.limit_hit is not None:
            collector.limits_hit.add(self.budget.limit_hit)
        return total.is_met or self.budget.limit_hit is not None

    def segment_search(self, query: Query, index: Index, part: int) -> SegmentSearch:
        is_count = self.options.form is Form.COUNT
        return SegmentSearch(query, self._atoms, index.parts[part], index.repository, self.budget, counts_only=is_count)

    def _reduce_for(self, index: Index) -> Query:
        return _reduce(self._query, index.repository, lambda child: self._has_match(child, index))

    def _has_match(self, query: Query, index: Index) -> bool:
        for part in range(len(index.parts)):
            search = self.segment_search(query, index, part)
            # The first match decides, so no further batch is read.
            if any(found.mask.any() for _, found in search.batches(search.possible())):
                return True
        return False


def _is_undecided(piece: Piece) -> bool:
    return piece[PAST_BLOCK] == UNDECIDED


def search_index(index: Index, query: Query, options: Options, budget: Budget) -> SearchResult:
    """Searches one index."""
    return search_indexes([index], query, options, budget)


def search_indexes(indexes: Sequence[Index], query: Query, options: Options, budget: Budget) -> SearchResult:
    """Searches several indexes in order, in this thread."""
    began = budget.now()
    search, collector = Search(query, options, budget), Collector(options)
    for index in indexes:
        for task in search.tasks(KernelTables([index]), collector):
            collector.merge(task.run())
    return collector.result(began, budget)


def _reduce(query: Query, repository: Repository, has_match: Callable[[Query], bool]) -> Query:
    """The query reduced for the documents of a repository; FALSE if none can match. The query's own type stays on
    top."""
    inner = query.child if isinstance(query, Type) else query
    left = _fold_type_repo(for_repository(inner, repository), has_match)
    return with_type(query.kind, left) if isinstance(query, Type) else left


def _is_about_files(query: Query) -> bool:
    """Whether it reduces to the same query for every repository."""
    match query:
        case And(children) | Or(children):
            return all(map(_is_about_files, children))
        case Not(child) | Boost(child, _):
            return _is_about_files(child)
        case Type(kind, child):
            return kind is not ResultKind.REPO and _is_about_files(child)
        case _:
            return isinstance(query, Substring | Regexp | Symbol | Language | FileNameSet | Const)


def _has_type_repo(query: Query) -> bool:
    match query:
        case And(children) | Or(children):
            return any(map(_has_type_repo, children))
        case Type(kind, child):
            return kind is ResultKind.REPO or _has_type_repo(child)
        case Not(child) | Boost(child, _):
            return _has_type_repo(child)
        case _:
            return False


def _fold_type_repo(query: Query, has_match: Callable[[Query], bool]) -> Query:
    """Replaces `type:repo` below other nodes by a constant: whether the repository has a match."""
    match query:
        case And(children):
            return conjunction(_fold_type_repo(child, has_match) for child in children)
        case Or(children):
            return disjunction(_fold_type_repo(child, has_match) for child in children)
        case Not(child):
            return negation(_fold_type_repo(child, has_match))
        case Boost(child, factor):
            return with_boost(_fold_type_repo(child, has_match), factor)
        case Type(ResultKind.REPO, child):
            return Const(has_match(_fold_type_repo(child, has_match)))
        case Type(kind, child):
            return with_type(kind, _fold_type_repo(child, has_match))
        case _:
            return query
