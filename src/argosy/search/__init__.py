"""In-memory code search: one index per repository, and an `IndexSet` that searches many of them.

    from argosy.search.backends.factory import open_source

    indexes = IndexSet([build(open_source("."), Policy())])
    result = indexes.search_now(parse("class IndexSet").query, Options())

Reading order: `model` (options and results), `documents` (index input), `query` (text to tree), `index` (files to
arrays), `match` (tree and arrays to result), `index_set` (search over many indexes), then `backends/` with
`factory.open_source`. Names are loaded on first access, so a program that only parses queries loads no kernels.
"""

from typing import TYPE_CHECKING

from argosy.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from argosy.search.documents import Entry, SkipReason, Source
    from argosy.search.index.build import build
    from argosy.search.index.index import Index
    from argosy.search.index_set import IndexSet
    from argosy.search.model import FileMatch, Form, LimitHit, Options, Repository, SearchResult, Stats
    from argosy.search.ports import Searcher
    from argosy.search.query import ParsedQuery, PatternType, QuerySyntaxError, parse
    from argosy.search.skip_policy import Policy

__all__ = [
    "Entry",
    "FileMatch",
    "Form",
    "Index",
    "IndexSet",
    "LimitHit",
    "Options",
    "ParsedQuery",
    "PatternType",
    "Policy",
    "QuerySyntaxError",
    "Repository",
    "SearchResult",
    "Searcher",
    "SkipReason",
    "Source",
    "Stats",
    "build",
    "parse",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "argosy.search.documents": ("Entry", "SkipReason", "Source"),
        "argosy.search.index.build": ("build",),
        "argosy.search.index.index": ("Index",),
        "argosy.search.model": ("SearchResult", "FileMatch", "Form", "Options", "LimitHit", "Repository", "Stats"),
        "argosy.search.ports": ("Searcher",),
        "argosy.search.query": ("ParsedQuery", "PatternType", "QuerySyntaxError", "parse"),
        "argosy.search.index_set": ("IndexSet",),
        "argosy.search.skip_policy": ("Policy",),
    },
)
