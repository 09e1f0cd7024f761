"""View models of file and folder pages: highlighted lines, outline, branches, links, and other holders of the file.

The matches of the query that led to a file come from running it again, restricted to that file: a URL with their
positions would be wrong as soon as the index is refreshed.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from markupsafe import Markup

from argosy.gateway.ui.highlight import (
    COLORED_CHARACTERS_MAX,
    Span,
    color_syntax,
    highlight_line,
    lines_of,
    spans_of,
    text_of,
)
from argosy.gateway.ui.links import commit_at_host, file_at_host, file_url, folder_url, raw_url
from argosy.gateway.ui.number_format import count_text, size_text
from argosy.search.fleet.model import FileText, FolderListing, OutlineEntry
from argosy.search.model import FileMatch, Options, Repository, SearchResult
from argosy.search.query import parse
from argosy.search.query.simplify import conjunction
from argosy.search.query.tree import Query, Regexp, Scope, Type

SHOWN_BYTES_MAX = 2 << 20  # browsers get slow above this; the raw file has the rest
SHOWN_LINES_MAX = 20_000
OUTLINE_MAX = 1_000
DEPTH_MAX = 4  # deeper definitions are shown at this depth
HIGHLIGHTS_MAX = 2_000  # matches highlighted in one file


@dataclass(frozen=True, slots=True)
class Crumb:
    name: Markup
    url: str


@dataclass(frozen=True, slots=True)
class OutlineView:
    name: str
    kind: str
    line: int
    depth: int


@dataclass(frozen=True, slots=True)
class BranchView:
    name: str
    version: str
    url: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class FilePageView:
    crumbs: tuple[Crumb, ...]
    lines: tuple[Markup, ...]
    outline: tuple[OutlineView, ...]
    branches: tuple[BranchView, ...]
    facts: str  # language, lines, size
    notes: tuple[str, ...]
    url: str
    permalink: str
    raw: str
    at_host: str
    commit_url: str
    marks: int


@dataclass(frozen=True, slots=True)
class FolderView:
    crumbs: tuple[Crumb, ...]
    entries: tuple[Crumb, ...]
    branches: tuple[BranchView, ...]
    is_cut: bool


def file_view(file: FileText, branch: str, spans: Sequence[Span] = (), *, version: str = "") -> FilePageView:
    """`spans` are the matches to highlight; `version` is the commit of the link, if it has one."""
    repository = file.repository
    text = _truncate(file.content)
    at = _version(repository, branch) or file.version
    return FilePageView(
        crumbs=crumbs(repository.name, file.path, branch),
        lines=tuple(lines_of(color_syntax(text, file.language), spans)),
        outline=outline_view(file.outline),
        branches=tuple(_branches(repository, branch, partial(file_url, repository.name, file.path))),
        facts=_facts(file),
        notes=tuple(_notes(file, text, version, at)),
        url=file_url(repository.name, file.path, branch=branch),
        permalink=file_url(repository.name, file.path, branch=branch, version=at),
        raw=raw_url(repository.name, file.path, branch=branch),
        at_host=file_at_host(repository, file.path, version=version or at, branch=branch),
        commit_url=commit_at_host(repository, at),
        marks=len(spans),
    )


def folder_view(folder: FolderListing, branch: str) -> FolderView:
    name, base = folder.repository.name, f"{folder.path}/" if folder.path else ""

    def url(entry: str) -> str:
        if entry.endswith("/"):
            return folder_url(name, base + entry.rstrip("/"), branch=branch)
        return file_url(name, base + entry, branch=branch)

    return FolderView(
        crumbs=crumbs(name, folder.path, branch),
        entries=tuple(Crumb(highlight_line(entry, []), url(entry)) for entry in folder.names),
        branches=tuple(_branches(folder.repository, branch, partial(folder_url, name, folder.path))),
        is_cut=folder.is_cut,
    )


def crumbs(repository: str, path: str, branch: str) -> tuple[Crumb, ...]:
    """Breadcrumbs from the repository to the path."""
    steps = path.split("/") if path else []
    above = [Crumb(highlight_line(repository, []), folder_url(repository, branch=branch))]
    for count, step in enumerate(steps, 1):
        above.append(Crumb(highlight_line(step, []), folder_url(repository, "/".join(steps[:count]), branch=branch)))
    return tuple(above)


def outline_view(outline: Sequence[OutlineEntry]) -> tuple[OutlineView, ...]:
    """Definitions with their nesting depth. A type may come after its methods, as in Go."""
    return tuple(
        OutlineView(entry.name, entry.kind, entry.line, _depth(outline, entry)) for entry in outline[:OUTLINE_MAX]
    )


def _depth(outline: Sequence[OutlineEntry], entry: OutlineEntry) -> int:
    depth = 0
    while depth < DEPTH_MAX and 0 <= entry.parent < len(outline):
        depth, entry = depth + 1, outline[entry.parent]
    return depth


def _branches(repository: Repository, branch: str, url: Callable[..., str]) -> list[BranchView]:
    return [
        BranchView(each.name, each.version, url(branch=each.name), _is(each.name, branch, repository))
        for each in repository.branches
    ]


def _is(name: str, branch: str, repository: Repository) -> bool:
    return name == branch or (branch in ("", "HEAD") and name == repository.branches[0].name)


def _version(repository: Repository, branch: str) -> str:
    return next((each.version for each in repository.branches if _is(each.name, branch, repository)), "")


def _truncate(content: bytes) -> str:
    text = text_of(content[:SHOWN_BYTES_MAX])
    # One more than is shown, which reveals that the file is longer.
    lines = text.split("\n", SHOWN_LINES_MAX)
    return text if len(lines) <= SHOWN_LINES_MAX else "\n".join([*lines[:SHOWN_LINES_MAX], ""])


def _facts(file: FileText) -> str:
    parts = [file.language] if file.language else []
    if not file.skipped:
        parts += [count_text(_lines(file.content), "line"), size_text(len(file.content))]
    return " · ".join(parts)


def _lines(content: bytes) -> int:
    return content.count(b"\n") + (content[-1:] not in (b"\n", b""))


def _notes(file: FileText, shown: str, version: str, at: str) -> list[str]:
    notes, size = [], size_text(len(file.content))
    if version and at and version != at:
        notes.append(f"this link refers to commit {version[:10]}, the index is at {at[:10]}: lines may have moved")
    if file.skipped:
        notes.append(f"content not indexed: {file.skipped}")
    if len(file.content) > SHOWN_BYTES_MAX or _lines(file.content) > SHOWN_LINES_MAX:
        notes.append(f"large file ({size}), truncated; see the raw file for the rest")
    if len(shown) > COLORED_CHARACTERS_MAX and file.language:
        notes.append(f"large file ({size}), shown without syntax colors")
    if not file.skipped and not _is_text(file.content):
        notes.append("not valid UTF-8: invalid bytes are shown as �")
    return notes


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


WALL_TIME_S = 3.0  # highlights are optional and must not delay the page
VERSIONS_MAX = 8  # versions of the file on different branches

_SPECIAL = re.compile(r"[.^$*+?()\[\]{}|\\]")


def highlight_query(query: str, path: str) -> tuple[Query, Options] | None:
    """The query and options; None if the query has no content condition or the path cannot be expressed."""
    parsed = parse(query).query
    # A `type:` query has no matches inside a file, and a pattern cannot express a path that is not text.
    if isinstance(parsed, Type) or not path.isprintable():
        return None
    here = Regexp("^" + _SPECIAL.sub(r"\\\g<0>", path) + "$", is_case_sensitive=True, scope=Scope.FILE_NAME)
    options = Options(
        # Lines are not clipped: the spans refer to the whole text of the file.
        files_max=VERSIONS_MAX,
        file_matches_max=HIGHLIGHTS_MAX,
        wall_time_s=WALL_TIME_S,
        line_bytes_max=0,
    )
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


OTHERS_MAX = 20  # named on the page; the rest are counted
VERSION_CHARS = 10


@dataclass(frozen=True, slots=True)
class FileHolder:
    """A repository that has the content, or the label its publisher gave. `url`: its page here, if any."""

    name: str
    version: str = ""
    url: str = ""


class HolderLookup(Protocol):
    async def holders(self, digest: bytes) -> Sequence[FileHolder]:
        """Holders of the content with this SHA-256 digest."""
        ...


@dataclass(frozen=True, slots=True)
class OtherView:
    name: Markup  # from other publishers: bidirectional and invisible characters are escaped
    url: str


@dataclass(frozen=True, slots=True)
class OthersView:
    shown: tuple[OtherView, ...] = ()
    more: int = 0


def others_view(holders: Iterable[FileHolder], repository: str) -> OthersView:
    """All holders but the repository of the page, each once."""
    # Sorted, so that the page does not change between two requests.
    others = sorted({(_name(each), each.url) for each in holders if each.name != repository})
    shown = tuple(OtherView(highlight_line(name, []), url) for name, url in others[:OTHERS_MAX])
    return OthersView(shown, len(others) - len(shown))


def _name(holder: FileHolder) -> str:
    return f"{holder.name}@{holder.version[:VERSION_CHARS]}" if holder.version else holder.name
