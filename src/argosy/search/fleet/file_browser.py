"""Looking into a repository without searching: a file with its outline, the names in a folder."""

from collections.abc import Iterator

import numpy as np

from argosy.base.errors import NotFound
from argosy.search.documents import SkipReason
from argosy.search.fleet.model import FileRequest, FileText, FolderListing, FolderRequest, OutlineEntry
from argosy.search.index.index import Index
from argosy.search.index.reader import HEAD, Outlined, branch_number, content_of, found, listed, outline

FOLDER_NAMES_MAX = 10_000
OUTLINE_ENTRIES_MAX = 20_000  # a file may define more; nobody reads on


def file_text(index: Index, asked: FileRequest) -> FileText:
    """The file on that branch. One whose content is not indexed has none, and says why."""
    branch = asked.branch or HEAD
    part, document = found(index, asked.path, branch)
    repository = index.repository
    names = [each.name for each in repository.branches]
    known, text = listed(part, document, names), content_of(part.segment, document)
    return FileText(
        repository=repository,
        path=known.path,
        content=b"" if isinstance(text, SkipReason) else text,
        language=known.language,
        branches=known.branches,
        version=repository.branches[branch_number(index, branch)].version if names else "",
        skipped=known.skipped.value,
        outline=_outline(outline(index, asked.path, branch)),
    )


def _outline(definitions: list[Outlined]) -> tuple[OutlineEntry, ...]:
    shown = definitions[:OUTLINE_ENTRIES_MAX]
    return tuple(OutlineEntry(each.name, each.kind, each.line, _parent(each, len(shown))) for each in shown)


def _parent(definition: Outlined, shown: int) -> int:
    """A type may stand behind the methods that belong to it, and so be among those that are cut off."""
    return definition.parent if definition.parent < shown else -1


def folder(index: Index, asked: FolderRequest) -> FolderListing:
    """The names directly in a folder, folders first, each kind by its bytes."""
    path = asked.path.strip("/")
    prefix = path.encode("utf-8", "surrogateescape") + b"/" if path else b""
    folders, files = set[bytes](), set[bytes]()
    for each in _paths(index, asked.branch or HEAD):
        if each.startswith(prefix):
            name, slash, _ = each[len(prefix) :].partition(b"/")
            (folders if slash else files).add(name + slash)
    if path and not folders and not files:
        raise NotFound(f"there is no folder {path!r} on branch {asked.branch or HEAD!r} of {asked.repository!r}")
    names = [*sorted(folders), *sorted(files)]
    shown = tuple(name.decode("utf-8", "surrogateescape") for name in names[:FOLDER_NAMES_MAX])
    return FolderListing(index.repository, path, shown, is_cut=len(names) > len(shown))


def _paths(index: Index, branch: str) -> Iterator[bytes]:
    """Of all documents on the branch. A path holds no NUL and is followed by one."""
    bit = np.uint64(1 << branch_number(index, branch))
    for part in index.parts:
        paths = part.segment.names.data.tobytes().split(b"\0")
        for document in np.flatnonzero(part.branches & bit).tolist():
            yield paths[document]
