"""Code search from memory: an index per repository, and a shelf of indexes that answers queries.

    from argosy.search.backends.opening import open_source

    shelf = Shelf([build(open_source("."), Policy())])
    answer = shelf.search_now(parse("class Shelf").query, Options())

Reading order: `model` (what goes in and comes out), `documents` (what an index is made of), `query` (text to tree),
`index` (files to arrays), `match` (tree and arrays to an answer), `service` (the shelf), then `backends/` with
`opening.open_source`. A name is loaded when it is asked for: whoever only parses queries, or passes answers on, waits
for no kernel.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argosy.search.documents import Entry, SkipReason, Source
    from argosy.search.index.build import build
    from argosy.search.index.index import Index
    from argosy.search.model import Answer, FileMatch, Form, Options, Reached, Repository, Stats
    from argosy.search.ports import Searcher
    from argosy.search.query import Parsed, PatternType, QuerySyntaxError, parse
    from argosy.search.service import Shelf
    from argosy.search.skipping import Policy

__all__ = [
    "Answer",
    "Entry",
    "FileMatch",
    "Form",
    "Index",
    "Options",
    "Parsed",
    "PatternType",
    "Policy",
    "QuerySyntaxError",
    "Reached",
    "Repository",
    "Searcher",
    "Shelf",
    "SkipReason",
    "Source",
    "Stats",
    "build",
    "parse",
]

_HOMES = {
    "argosy.search.documents": ("Entry", "SkipReason", "Source"),
    "argosy.search.index.build": ("build",),
    "argosy.search.index.index": ("Index",),
    "argosy.search.model": ("Answer", "FileMatch", "Form", "Options", "Reached", "Repository", "Stats"),
    "argosy.search.ports": ("Searcher",),
    "argosy.search.query": ("Parsed", "PatternType", "QuerySyntaxError", "parse"),
    "argosy.search.service": ("Shelf",),
    "argosy.search.skipping": ("Policy",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
