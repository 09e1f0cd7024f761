"""One query on many indexes: reduced for each repository, cut into tasks, gathered into one answer.

The repository's name, flags and branches reduce the query first; what is left is asked of each segment, best documents
first, until everything is seen or a bound is met. A plain literal is asked of all segments at once. Tasks may run in
any order and in threads. Only the files that are shown are turned into something to look at.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from argosy.search.index.index import Index
from argosy.search.index.kernel_tables import Roll
from argosy.search.kernels.candidates import PAST_BLOCK, ROW, UNDECIDED
from argosy.search.match.atoms import Atoms
from argosy.search.match.budget import Budget
from argosy.search.match.collector import Outcome
from argosy.search.match.evaluate import SegmentSearch
from argosy.search.match.index_filter import Ruling
from argosy.search.match.literal_query import Piece, Plain, bundled
from argosy.search.match.tasks import Bounds, Bundle, Task, TreeTask
from argosy.search.model import Form, LimitHit, Options, Repository, SearchResult
from argosy.search.query.simplify import boosted, conjunction, disjunction, for_repository, negation, typed
from argosy.search.query.tree import (
    FALSE,
    And,
    Boost,
    Const,
    FileNameSet,
    Kind,
    Language,
    Not,
    Or,
    Query,
    Regexp,
    Substring,
    Symbol,
    Type,
)

_NOBODY = Repository("")  # stands for any, where a query is about none


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """What is left of a query for one index."""

    query: Query
    index: Index
    number: int

    def question(self) -> tuple[int, ...]:
        """The same for the same atoms: reducing a query keeps them, the very objects."""
        return tuple(map(id, self.query.children)) if isinstance(self.query, And) else (id(self.query),)


class Search:
    """A query made ready: its patterns are compiled once, and threads may share it."""

    def __init__(self, query: Query, options: Options, budget: Budget) -> None:
        self.options = options
        self.budget = budget
        self._query = query
        self._atoms = Atoms(query)
        self._bounds = Bounds(options, budget)
        self._common = _reduced(query, _NOBODY, bool) if _is_about_files(query) else None
        self._looks_to_reduce = _has_type_repo(query)  # then what is left of it cannot be told without text
        self._seen = 0  # indexes: each has a number in this search

    def tasks(self, roll: Roll, outcome: Outcome) -> list[Task]:
        """What is to be done to search the indexes, in their order; where that is nothing, `outcome` is told why."""
        numbers = range(self._seen, self._seen + len(roll))
        self._seen = numbers.stop
        if self._common is not None and self._common != FALSE:
            return self._common_tasks(self._common, roll, numbers, outcome)
        tasks: list[Task] = []
        for _, alike in itertools.groupby(self._asked(roll, numbers, outcome), key=_Asked.question):
            group = list(alike)
            indexes = roll.of([each.index for each in group])
            tasks += self._common_tasks(group[0].query, indexes, [each.number for each in group], outcome)
        return tasks

    def _asked(self, roll: Roll, numbers: Sequence[int], outcome: Outcome) -> Iterator[_Asked]:
        """What is left to ask of each index, where there is anything."""
        for number, index in zip(numbers, roll.indexes, strict=True):
            if self.is_over(outcome):
                outcome.skipped.add(number)
                continue
            query = self._reduced(index)
            if self._looks_to_reduce and self.is_over(outcome):
                outcome.skipped.add(number)
            elif query == FALSE:
                outcome.indexes_excluded += 1
            else:
                yield _Asked(query, index, number)

    def _common_tasks(self, query: Query, roll: Roll, numbers: Sequence[int], outcome: Outcome) -> list[Task]:
        """What is to be done where the same is asked of every index."""
        if plain := Plain.of(query, self._atoms):
            return self._plain_tasks(plain, query, roll, numbers, outcome)
        return self._tree_tasks(query, roll, numbers, outcome)

    def _tree_tasks(self, query: Query, roll: Roll, numbers: Sequence[int], outcome: Outcome) -> list[Task]:
        """One part after the other, but for those that are ruled out in one go."""
        tasks: list[Task] = []
        ruling = Ruling.of(query, self._atoms)
        for first, past in roll.turns:
            if self.is_over(outcome):
                outcome.skipped.update(numbers[first:])
                break
            rows: Iterable[int] = range(roll.firsts[first], roll.firsts[past])
            if ruling is not None:
                rows, lookups, index_bytes = ruling.rows(roll, roll.firsts[first], roll.firsts[past])
                outcome.looked_up(lookups, index_bytes)
            busy = 0  # indexes with something left to do, or skipped
            for owner, own in itertools.groupby(rows, key=roll.owners.__getitem__):
                asked = _Asked(query, roll.indexes[owner], numbers[owner])
                if self.is_over(outcome):
                    outcome.skipped.add(asked.number)
                    busy += 1
                    continue
                found = [task for row in own if (task := self._tree_task(asked, row - roll.firsts[owner], outcome))]
                busy += bool(found)
                tasks += found
            outcome.indexes_ruled_out += past - first - busy
        return tasks

    def _plain_tasks(
        self, plain: Plain, query: Query, roll: Roll, numbers: Sequence[int], outcome: Outcome
    ) -> list[Task]:
        """For all indexes in one go, or for as many as can be looked up in one."""
        tasks: list[Task] = []
        for first, past in roll.turns:
            if self.is_over(outcome):
                outcome.skipped.update(numbers[first:])
                break
            chosen = plain.chosen(roll, roll.firsts[first], roll.firsts[past])
            outcome.looked_up(chosen.lookups, chosen.index_bytes)
            owners, busy = roll.owners, set()  # indexes with something left to do
            for is_undecided, alike in itertools.groupby(chosen.pieces, key=_is_undecided):
                pieces = list(alike)
                if not is_undecided:
                    busy.update([owners[piece[ROW]] for piece in pieces])
                    bundles = bundled(roll, chosen.blocks, pieces)
                    tasks += [Bundle(self._bounds, plain, roll, numbers, chosen.blocks, each) for each in bundles]
                    continue
                for row in [piece[ROW] for piece in pieces]:
                    owner = owners[row]
                    asked = _Asked(query, roll.indexes[owner], numbers[owner])
                    if task := self._tree_task(asked, row - roll.firsts[owner], outcome):
                        busy.add(owner)
                        tasks.append(task)
            outcome.indexes_ruled_out += past - first - len(busy)
        return tasks

    def _tree_task(self, asked: _Asked, part: int, outcome: Outcome) -> TreeTask | None:
        search = self.segment_search(asked.query, asked.index, part)
        task = TreeTask(self._bounds, search, asked.query, asked.index, part, asked.number)
        outcome.looked_up(search.lookups, search.index_bytes)
        return task if task.documents else None

    def is_over(self, outcome: Outcome) -> bool:
        """Whether nothing further is to be started; the outcome is told why."""
        total = self._bounds.total
        if total.is_met:
            outcome.limits_hit.add(LimitHit.TOTAL_MATCHES)
        if self.budget.is_spent() and self.budget.limit_hit is not None:
            outcome.limits_hit.add(self.budget.limit_hit)
        return total.is_met or self.budget.limit_hit is not None

    def segment_search(self, query: Query, index: Index, part: int) -> SegmentSearch:
        is_count = self.options.form is Form.COUNT
        return SegmentSearch(query, self._atoms, index.parts[part], index.repository, self.budget, counts_only=is_count)

    def _reduced(self, index: Index) -> Query:
        return _reduced(self._query, index.repository, lambda child: self._has_match(child, index))

    def _has_match(self, query: Query, index: Index) -> bool:
        for part in range(len(index.parts)):
            search = self.segment_search(query, index, part)
            if any(found.mask.any() for _, found in search.batches(search.possible())):
                return True
        return False


def _is_undecided(piece: Piece) -> bool:
    return piece[PAST_BLOCK] == UNDECIDED


def search_index(index: Index, query: Query, options: Options, budget: Budget) -> SearchResult:
    """The answer of one index."""
    return search_indexes([index], query, options, budget)


def search_indexes(indexes: Sequence[Index], query: Query, options: Options, budget: Budget) -> SearchResult:
    """The answer of several indexes, one after the other in this thread, in the order given."""
    began = budget.now()
    search, outcome = Search(query, options, budget), Outcome(options)
    for index in indexes:
        for task in search.tasks(Roll([index]), outcome):
            outcome.merge(task.run())
    return outcome.answer(began, budget)


def _reduced(query: Query, repository: Repository, has_match: Callable[[Query], bool]) -> Query:
    """What is left to ask of a repository's documents; FALSE if none can match. The query's own type stays on top."""
    asked = query.child if isinstance(query, Type) else query
    left = _told(for_repository(asked, repository), has_match)
    return typed(query.kind, left) if isinstance(query, Type) else left


def _is_about_files(query: Query) -> bool:
    """Whether the same is left of it for every repository."""
    match query:
        case And(children) | Or(children):
            return all(map(_is_about_files, children))
        case Not(child) | Boost(child, _):
            return _is_about_files(child)
        case Type(kind, child):
            return kind is not Kind.REPO and _is_about_files(child)
        case _:
            return isinstance(query, Substring | Regexp | Symbol | Language | FileNameSet | Const)


def _has_type_repo(query: Query) -> bool:
    match query:
        case And(children) | Or(children):
            return any(map(_has_type_repo, children))
        case Type(kind, child):
            return kind is Kind.REPO or _has_type_repo(child)
        case Not(child) | Boost(child, _):
            return _has_type_repo(child)
        case _:
            return False


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
