"""What a node reads from one index besides matches: a file with its outline, a folder, the counts of a listing."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from argosy.base.errors import NotFound
from argosy.search.arrays import U8
from argosy.search.documents import SkipReason
from argosy.search.fleet.model import (
    FileRequest,
    FileText,
    FolderListing,
    FolderRequest,
    OutlineEntry,
    RepoListing,
    RepoStatus,
)
from argosy.search.index.index import Index, Part
from argosy.search.index.reader import (
    HEAD,
    DocumentSymbol,
    branch_number,
    content_of,
    document_info,
    find_document,
    outline,
)
from argosy.search.index.sections import memory_bytes

# -- files and folders -------------------------------------------------------------------------------------------------

FOLDER_NAMES_MAX = 10_000
OUTLINE_ENTRIES_MAX = 20_000  # generated files may define more


def file_text(index: Index, request: FileRequest) -> FileText:
    """The file on the requested branch. A skipped file has no content and the reason why."""
    branch = request.branch or HEAD
    part, document = find_document(index, request.path, branch)
    repository = index.repository
    names = [each.name for each in repository.branches]
    known, text = document_info(part, document, names), content_of(part.segment, document)
    return FileText(
        repository=repository,
        path=known.path,
        content=b"" if isinstance(text, SkipReason) else text,
        language=known.language,
        branches=known.branches,
        version=repository.branches[branch_number(index, branch)].version if names else "",
        skipped=known.skipped.value,
        outline=_outline(outline(index, request.path, branch)),
    )


def _outline(definitions: list[DocumentSymbol]) -> tuple[OutlineEntry, ...]:
    shown = definitions[:OUTLINE_ENTRIES_MAX]
    return tuple(OutlineEntry(each.name, each.kind, each.line, _parent(each, len(shown))) for each in shown)


def _parent(definition: DocumentSymbol, shown: int) -> int:
    """-1 if the parent is cut off: a type may come after its methods."""
    return definition.parent if definition.parent < shown else -1


def folder(index: Index, request: FolderRequest) -> FolderListing:
    """The names directly in a folder: folders first, each kind sorted by its bytes."""
    path = request.path.strip("/")
    prefix = path.encode("utf-8", "surrogateescape") + b"/" if path else b""
    folders, files = set[bytes](), set[bytes]()
    for each in _paths(index, request.branch or HEAD):
        if each.startswith(prefix):
            name, slash, _ = each[len(prefix) :].partition(b"/")
            (folders if slash else files).add(name + slash)
    if path and not folders and not files:
        raise NotFound(f"folder not found: {path!r} on branch {request.branch or HEAD!r} of {request.repository!r}")
    names = [*sorted(folders), *sorted(files)]
    shown = tuple(name.decode("utf-8", "surrogateescape") for name in names[:FOLDER_NAMES_MAX])
    return FolderListing(index.repository, path, shown, is_cut=len(names) > len(shown))


def _paths(index: Index, branch: str) -> Iterator[bytes]:
    """The paths of all documents on the branch. Each is followed by a NUL, which no path contains."""
    bit = np.uint64(1 << branch_number(index, branch))
    for part in index.parts:
        paths = part.segment.names.data.tobytes().split(b"\0")
        for document in np.flatnonzero(part.branches & bit).tolist():
            yield paths[document]


# -- counts ------------------------------------------------------------------------------------------------------------

CACHED_MAX = 10_000  # repositories whose counts are cached
SLICE_BYTES = 1 << 20  # of text compared at a time: the comparison allocates as many bytes again

_NEWLINE = ord("\n")
_Version: TypeAlias = Hashable


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of one version of a repository, without deleted documents."""

    documents: int
    content_bytes: int
    memory_bytes: int  # with deleted documents
    lines: int  # newlines
    has_symbols: bool
    languages: dict[str, int]


class IndexCounts:
    """Cached counts by repository. The cache does not keep an index alive."""

    def __init__(self) -> None:
        self._cached: dict[str, tuple[_Version, Counts]] = {}

    def listing(self, index: Index, status: RepoStatus | None) -> RepoListing:
        counts = self._counts(index)
        return RepoListing(
            repository=index.repository,
            documents=counts.documents,
            content_bytes=counts.content_bytes,
            memory_bytes=counts.memory_bytes,
            lines=counts.lines,
            indexed_at=status.indexed_at if status else 0.0,
            has_symbols=counts.has_symbols,
            languages=counts.languages,
        )

    def _counts(self, index: Index) -> Counts:
        name, version = index.repository.name, _version(index)
        cached = self._cached.get(name)
        if cached is None or cached[0] != version:
            if len(self._cached) >= CACHED_MAX:
                self._cached.clear()
            cached = self._cached[name] = version, count_index(index)
        return cached[1]


def _version(index: Index) -> _Version:
    """A value that differs between any two versions of a repository's index."""
    # Not the identity of the object: the cache must not keep an index alive, and identities are reused.
    sums = tuple((part.segment.checksums, part.checksum) for part in index.parts)
    return index.repository.branches, index.recipe, sums


def count_index(index: Index) -> Counts:
    languages: dict[str, int] = {}
    for part in index.parts:
        numbers = np.bincount(part.segment.table.languages[np.flatnonzero(part.branches)])
        for number in np.flatnonzero(numbers).tolist():
            language = part.segment.languages[number]
            if language:
                languages[language] = languages.get(language, 0) + int(numbers[number])
    return Counts(
        documents=sum(int(np.count_nonzero(part.branches)) for part in index.parts),
        content_bytes=sum(int(_sizes(part)[np.flatnonzero(part.branches)].sum()) for part in index.parts),
        memory_bytes=memory_bytes(index),
        lines=sum(_lines(part) for part in index.parts),
        has_symbols=any(len(part.segment.symbols.starts) for part in index.parts),
        languages=languages,
    )


def _sizes(part: Part) -> npt.NDArray[np.int64]:
    starts = part.segment.content.starts.astype(np.int64)
    return starts[1:] - starts[:-1] - 1


def _lines(part: Part) -> int:
    """All newlines less those of deleted documents, which are few: builds drop them."""
    content = part.segment.content
    deleted = np.flatnonzero(part.branches == 0).tolist()
    dead = sum(_newlines(content.data[int(content.starts[each]) : int(content.starts[each + 1])]) for each in deleted)
    return _newlines(content.data) - dead


def _newlines(data: U8) -> int:
    return sum(
        int(np.count_nonzero(data[at : at + SLICE_BYTES] == _NEWLINE)) for at in range(0, len(data), SLICE_BYTES)
    )
