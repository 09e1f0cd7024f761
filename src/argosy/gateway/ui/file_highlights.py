"""Highlights on a file page: runs the query that led to the file again, restricted to that file."""

import re

from argosy.gateway.ui.files import MARKS_MAX, SHOWN_BYTES_MAX
from argosy.gateway.ui.highlight import Span, spans_of
from argosy.search.fleet.model import FileText
from argosy.search.model import FileMatch, Options, SearchResult
from argosy.search.query import parse
from argosy.search.query.simplify import conjunction
from argosy.search.query.tree import Query, Regexp, Scope, Type

WALL_TIME_S = 3.0  # highlights are optional and must not delay the page
VERSIONS_MAX = 8  # versions of the file on different branches

_SPECIAL = re.compile(r"[.^$*+?()\[\]{}|\\]")


def highlight_query(query: str, path: str) -> tuple[Query, Options] | None:
    """The query and options; None if the query has no content condition or the path cannot be expressed."""
    parsed = parse(query).query
    if isinstance(parsed, Type) or not path.isprintable():
        return None
    here = Regexp("^" + _SPECIAL.sub(r"\\\g<0>", path) + "$", is_case_sensitive=True, scope=Scope.FILE_NAME)
    options = Options(files_max=VERSIONS_MAX, file_matches_max=MARKS_MAX, wall_time_s=WALL_TIME_S, line_bytes_max=0)
    return conjunction([parsed, here]), options


def highlight_spans(answer: SearchResult, file: FileText, branch: str) -> list[Span]:
    """The spans of the matches in the shown text."""
    for match in answer.files:
        if match.path == file.path and _is_same(match, file, branch):
            ranges = [each for chunk in match.chunks if not chunk.is_file_name for each in chunk.ranges]
            return spans_of(file.content[:SHOWN_BYTES_MAX], ranges)
    return []


def _is_same(match: FileMatch, file: FileText, branch: str) -> bool:
    """Whether the match is in this version of the file, not in another branch's."""
    if branch in ("", "HEAD"):
        return not match.branches or not file.branches or bool(set(match.branches) & set(file.branches))
    return branch in match.branches
