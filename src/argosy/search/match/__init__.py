"""From a query and an index to an answer."""

from argosy.search.match.collector import Collector
from argosy.search.match.limits import Budget
from argosy.search.match.search import Search, search_index, search_indexes
from argosy.search.match.tasks import Task

__all__ = ["Budget", "Collector", "Search", "Task", "search_index", "search_indexes"]
