"""Runs a query on indexes.

Reading order: `search` (reduces the query per repository, creates tasks), `tasks` with `literal_query` (the fast path)
and `evaluate` (any other query), `matchers` and `regex_matcher` (how an atom is found), `rank`, `top_k`, `collector`
and `file_matches` (from matches to a result).
"""

from argosy.search.match.collector import Collector
from argosy.search.match.limits import Budget
from argosy.search.match.search import Search, search_index, search_indexes
from argosy.search.match.tasks import Task

__all__ = ["Budget", "Collector", "Search", "Task", "search_index", "search_indexes"]
