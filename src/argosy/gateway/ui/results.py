"""View model of the search page: files with excerpts, line by line.

Only shown lines get syntax colors, up to a bound per page.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from argosy.gateway.ui.highlight import lines_of, marked, spans_of, text_of
from argosy.gateway.ui.links import file_url, folder_url
from argosy.gateway.ui.syntax_colors import coloured
from argosy.search.model import Chunk, FileMatch, LimitHit, Options, SearchResult

FILES_STEPS = (50, 100, 200, 500, 1_000)
FILES_MAX = FILES_STEPS[-1]
CONTEXT_MAX = 10
FILE_MATCHES_MAX = 24  # shown per file; the rest are counted
OPEN_CHUNKS = 4  # shown per file; further ones are folded
LINE_BYTES_MAX = 400  # several screen widths
WALL_TIME_S = 10.0
COLOURED_BYTES_MAX = 100_000  # per page, about half a second of work; later lines stay plain


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
    left = COLOURED_BYTES_MAX
    for file in answer.files:
        left -= sum(len(chunk.content) for chunk in file.chunks)
        yield _file_view(file, query, _branch(answer, file), is_coloured=left >= 0)


def _branch(answer: SearchResult, file: FileMatch) -> str:
    """The branch for a link; empty for the default branch."""
    repository = answer.repositories.get(file.repository)
    first = repository.branches[0].name if repository and repository.branches else "HEAD"
    return "" if not file.branches or first in file.branches else file.branches[0]


def _file_view(file: FileMatch, query: str, branch: str, *, is_coloured: bool) -> FileMatchView:
    url = file_url(file.repository, file.path, branch=branch, query=query)
    chunks = [
        _chunk_view(chunk, url, file.language if is_coloured else "") for chunk in file.chunks if not chunk.is_file_name
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
            return marked(file.path, [] if spans == [(0, len(file.path))] else spans)
    return marked(file.path, [])


def _chunk_view(chunk: Chunk, url: str, language: str) -> ChunkView:
    text = text_of(chunk.content)
    # A clipped line may start inside a string, for example, so its syntax colors would be wrong.
    pieces = coloured(text, language if not chunk.is_clipped else "")
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
