"""From a query and an index to an answer."""

from argosy.search.match.budget import Budget
from argosy.search.match.outcome import Outcome
from argosy.search.match.searching import Search, search_index, search_indexes
from argosy.search.match.tasks import Task

__all__ = ["Budget", "Outcome", "Search", "Task", "search_index", "search_indexes"]
