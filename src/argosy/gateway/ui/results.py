"""View model of the search page: files with excerpts, line by line, and notices about what is missing (GW-1).

Only lines that are shown get syntax colors, up to a limit per page.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import groupby

from markupsafe import Markup

from argosy.base.redact import redact
from argosy.gateway.ui.highlight import color_syntax, highlight_line, lines_of, spans_of, text_of
from argosy.gateway.ui.links import file_url, folder_url
from argosy.gateway.ui.number_format import count_text
from argosy.search.model import Chunk, FileMatch, LimitHit, Missing, MissingReason, Options, SearchResult
from argosy.search.query.tree import (
    Alias,
    And,
    Boost,
    Const,
    Flag,
    Meta,
    Not,
    Or,
    Query,
    Repo,
    RepoIds,
    RepoSet,
    ResultKind,
    Type,
)

FILES_STEPS = (50, 100, 200, 500, 1_000)
FILES_MAX = FILES_STEPS[-1]
CONTEXT_MAX = 10
FILE_MATCHES_MAX = 24  # shown per file; the rest are counted
OPEN_CHUNKS = 4  # shown per file; further ones are folded
LINE_BYTES_MAX = 400  # several screen widths
WALL_TIME_S = 10.0
COLORED_BYTES_MAX = 100_000  # per page, about half a second of work; later lines stay plain


@dataclass(frozen=True, slots=True)
class LineView:
    number: int
    html: Markup
    url: str
    is_match: bool


@dataclass(frozen=True, slots=True)
class ChunkView:
    lines: tuple[LineView, ...]
    is_clipped: bool = False
    is_headless: bool = False  # clipped at its start
    inside: str = ""  # the definition around its best match


@dataclass(frozen=True, slots=True)
class FileMatchView:
    repository: str
    repository_url: str
    path: Markup
    url: str
    language: str
    branches: tuple[str, ...]
    matches: int
    chunks: tuple[ChunkView, ...]
    folded: tuple[ChunkView, ...]
    more: int  # matches not shown
    skipped: str = ""


def options_of(files: int, context: int) -> Options:
    """The limits of a search from the page."""
    return Options(
        files_max=files,
        file_matches_max=FILE_MATCHES_MAX,
        context_lines=context,
        line_bytes_max=LINE_BYTES_MAX,
        wall_time_s=WALL_TIME_S,
    )


def next_step(answer: SearchResult, files: int) -> int:
    """The number of files on the next, larger page; 0 if there are no more or the page is at its maximum."""
    if LimitHit.FILES_SHOWN not in answer.limits_hit:
        return 0
    return next((step for step in FILES_STEPS if step > files), 0)


def file_views(answer: SearchResult, query: str) -> Iterator[FileMatchView]:
    """The files in result order; `query` is passed on to file pages, which highlight its matches."""
    # Lexers are slow, so the first files are colored and the others are plain.
    left = COLORED_BYTES_MAX
    for file in answer.files:
        left -= sum(len(chunk.content) for chunk in file.chunks)
        yield _file_view(file, query, _branch(answer, file), is_colored=left >= 0)


def _branch(answer: SearchResult, file: FileMatch) -> str:
    """The branch for a link; empty for the default branch."""
    repository = answer.repositories.get(file.repository)
    first = repository.branches[0].name if repository and repository.branches else "HEAD"
    return "" if not file.branches or first in file.branches else file.branches[0]


def _file_view(file: FileMatch, query: str, branch: str, *, is_colored: bool) -> FileMatchView:
    url = file_url(file.repository, file.path, branch=branch, query=query)
    chunks = [
        _chunk_view(chunk, url, file.language if is_colored else "") for chunk in file.chunks if not chunk.is_file_name
    ]
    shown = sum(len(chunk.ranges) for chunk in file.chunks)
    return FileMatchView(
        repository=file.repository,
        repository_url=folder_url(file.repository),
        path=_name(file),
        url=url,
        language=file.language,
        branches=file.branches,
        matches=file.match_count,
        chunks=tuple(chunks[:OPEN_CHUNKS]),
        folded=tuple(chunks[OPEN_CHUNKS:]),
        more=max(0, file.match_count - shown),
        skipped=file.skipped,
    )


def _name(file: FileMatch) -> Markup:
    """The path with highlighted matches."""
    for chunk in file.chunks:
        if chunk.is_file_name and text_of(chunk.content) == file.path:
            spans = spans_of(chunk.content, chunk.ranges)
            # A match of the whole name means that only filters selected the file (`repo:`, `lang:`), so nothing is
            # highlighted.
            return highlight_line(file.path, [] if spans == [(0, len(file.path))] else spans)
    return highlight_line(file.path, [])


def _chunk_view(chunk: Chunk, url: str, language: str) -> ChunkView:
    text = text_of(chunk.content)
    # A clipped line may start inside a string, for example, so its syntax colors would be wrong.
    pieces = color_syntax(text, language if not chunk.is_clipped else "")
    matching = {line for each in chunk.ranges for line in range(each.start.line, each.end.line + 1)}
    spans = spans_of(chunk.content, chunk.ranges, start=chunk.start.offset)
    lines = tuple(
        LineView(number, html, f"{url}#L{number}", number in matching)
        for number, html in enumerate(lines_of(pieces, spans), chunk.start.line)
    )
    return ChunkView(lines, chunk.is_clipped, chunk.is_clipped and chunk.start.column > 1, _inside(chunk))


def _inside(chunk: Chunk) -> str:
    """The scope that encloses the matched definition, if any."""
    return next((f"{each.parent_kind} {each.parent}" for each in chunk.symbols if each and each.parent), "")


NAMES_MAX = 50  # repositories named in one notice; the rest are counted


class Tone(Enum):
    WARNING = "warning"  # the result is incomplete
    NOTE = "note"  # the result is complete but truncated on the page


@dataclass(frozen=True, slots=True)
class MissingName:
    repository: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    tone: Tone
    text: str
    named: tuple[MissingName, ...] = ()
    unnamed: int = 0


_REASONS = {
    MissingReason.WARMING: "still being fetched or indexed; retry shortly",
    MissingReason.UNOWNED: "not held by any node; retry shortly",
    MissingReason.TIMED_OUT: "timed out; retry or narrow the query",
    MissingReason.FAILED: "failed",
}
_LIMITS = {
    LimitHit.INDEX_MATCHES: "match limit per repository reached; narrow the query to see all matches",
    LimitHit.TOTAL_MATCHES: "total match limit reached; narrow the query to see all matches",
    LimitHit.WALL_TIME: "search timed out; narrow the query to see all matches",
    LimitHit.CANCELLED: "search cancelled; retry",
}


def notices(answer: SearchResult) -> tuple[Notice, ...]:
    """Missing repositories first, then limits hit. Files and matches beyond the page need no notice: a link below the
    results and a count beside each file lead to them."""
    bounds = [Notice(Tone.WARNING, text) for reached, text in _LIMITS.items() if reached in answer.limits_hit]
    clipped = sum(chunk.is_clipped for file in answer.files for chunk in file.chunks)
    if clipped:
        text = f"{count_text(clipped, 'very long line')} truncated; open the file to see all of it"
        bounds.append(Notice(Tone.NOTE, text))
    return (*missing_notices(answer.missing), *bounds)


def missing_notices(missing: Iterable[Missing]) -> tuple[Notice, ...]:
    """One notice per reason."""
    order = list(MissingReason)
    found = sorted(missing, key=lambda each: (order.index(each.why), each.repository))
    return tuple(_missing(why, list(group)) for why, group in groupby(found, key=lambda each: each.why))


def _missing(why: MissingReason, missing: list[Missing]) -> Notice:
    text = f"{count_text(len(missing), 'repository is', 'repositories are')} missing: {_REASONS[why]}"
    named = tuple(MissingName(each.repository, redact(each.detail)) for each in missing[:NAMES_MAX])
    return Notice(Tone.WARNING, text, named, max(0, len(missing) - NAMES_MAX))


def is_repository_query(query: Query) -> bool:
    """Whether the result is a list of repositories: `type:repo`, or no condition on files.

    Wider than zoekt's API: `archived:no repo:x` has no condition on files, so the page lists repositories.
    """
    if isinstance(query, Type):
        return query.kind is ResultKind.REPO or is_repository_query(query.child)
    return not isinstance(query, Const) and _is_about_repositories(query)


def _is_about_repositories(query: Query) -> bool:
    match query:
        case And(children) | Or(children):
            return all(_is_about_repositories(child) for child in children)
        case Not(child) | Boost(child, _):
            return _is_about_repositories(child)
        case _:
            return isinstance(query, Repo | RepoSet | RepoIds | Alias | Flag | Meta | Const)
