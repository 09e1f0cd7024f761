"""The query language: text to tree and back, and what a tree means for one repository."""

from argosy.search.query.format import format_query
from argosy.search.query.lex import PatternType, QuerySyntaxError
from argosy.search.query.parse import COUNT_ALL, ParsedQuery, parse
from argosy.search.query.simplify import branch_mask, for_repository, simplify

__all__ = [
    "COUNT_ALL",
    "ParsedQuery",
    "PatternType",
    "QuerySyntaxError",
    "branch_mask",
    "for_repository",
    "format_query",
    "parse",
    "simplify",
]
