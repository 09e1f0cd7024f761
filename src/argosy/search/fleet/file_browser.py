"""Browsing a repository: a file with its outline, and the names in a folder."""

from collections.abc import Iterator

import numpy as np

from argosy.base.errors import NotFound
from argosy.search.documents import SkipReason
from argosy.search.fleet.model import FileRequest, FileText, FolderListing, FolderRequest, OutlineEntry
from argosy.search.index.index import Index
from argosy.search.index.reader import (
    HEAD,
    DocumentSymbol,
    branch_number,
    content_of,
    document_info,
    find_document,
    outline,
)

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
