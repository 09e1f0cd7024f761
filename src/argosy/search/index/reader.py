"""Reads an index: lists its documents, returns their content and their definitions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from argosy.base.errors import NotFound
from argosy.search.documents import Category, Content, SkipReason
from argosy.search.index.index import Index, Part, Segment
from argosy.search.symbols import KINDS

HEAD = "HEAD"  # stands for the first branch

_REASONS = tuple(SkipReason)


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """A document as listed."""

    path: str
    size_bytes: int  # of the indexed content
    language: str
    category: Category
    skipped: SkipReason
    branches: tuple[str, ...]
    blob_id: bytes  # padded with zeros to the width of the longest


@dataclass(frozen=True, slots=True)
class DocumentSymbol:
    """A definition in a document; `parent` is the position of the enclosing one in the same outline, or -1."""

    name: str
    kind: str
    line: int  # from 1
    offset: int  # of the name, in bytes from the start of the file
    parent: int


def documents(index: Index) -> Iterator[DocumentInfo]:
    """The documents of all branches, in index order."""
    names = [branch.name for branch in index.repository.branches]
    for part in index.parts:
        for document in np.flatnonzero(part.branches).tolist():
            yield document_info(part, document, names)


def content(index: Index, path: str, branch: str = HEAD) -> bytes:
    """The content of a file on a branch."""
    part, document = find_document(index, path, branch)
    text = content_of(part.segment, document)
    if isinstance(text, SkipReason):
        raise NotFound(f"the content of {path!r} is not indexed: {text.value}")
    return text


def content_of(segment: Segment, document: int) -> Content:
    """The content of a document, or the reason why it is not indexed."""
    reason = _REASONS[int(segment.table.skips[document])]
    if reason is not SkipReason.NONE:
        return reason
    start, end = _bounds(segment, document)
    return segment.content.data[start:end].tobytes()


def outline(index: Index, path: str, branch: str = HEAD) -> list[DocumentSymbol]:
    """The definitions of a file in text order."""
    part, document = find_document(index, path, branch)
    segment = part.segment
    start, end = _bounds(segment, document)
    symbols, data = segment.symbols, segment.content.data
    first, last = np.searchsorted(symbols.starts, [start, end]).tolist()
    # Counted for this document only. A table of all line starts would take an eighth of the text in memory.
    newlines = np.flatnonzero(data[start:end] == ord("\n")) + start
    lines = np.searchsorted(newlines, symbols.starts[first:last]) + 1
    return [
        DocumentSymbol(
            name=_text(data[at : at + length].tobytes()),
            kind=KINDS[kind],
            line=line,
            offset=at - start,
            # Parents are numbered within the segment, and an outline starts at 0.
            parent=parent - first if parent >= 0 else -1,
        )
        for at, length, kind, line, parent in zip(
            symbols.starts[first:last].tolist(),
            symbols.lengths[first:last].tolist(),
            symbols.kinds[first:last].tolist(),
            lines.tolist(),
            symbols.parents[first:last].tolist(),
            strict=True,
        )
    ]


def document_info(part: Part, document: int, branches: Sequence[str]) -> DocumentInfo:
    """A document as listed; `branches` are the branch names of the repository."""
    segment, mask = part.segment, int(part.branches[document])
    start, end = _bounds(segment, document)
    return DocumentInfo(
        path=_text(segment.path(document)),
        size_bytes=end - start,
        language=segment.languages[int(segment.table.languages[document])],
        category=Category(int(segment.table.categories[document])),
        skipped=_REASONS[int(segment.table.skips[document])],
        branches=tuple(name for number, name in enumerate(branches) if mask >> number & 1),
        blob_id=segment.table.blob_ids[document].tobytes(),
    )


def find_document(index: Index, path: str, branch: str = HEAD) -> tuple[Part, int]:
    """Finds the document of a path on a branch; returns its part and number."""
    bit = np.uint64(1 << branch_number(index, branch))
    wanted = path.encode("utf-8", "surrogateescape")
    for part in index.parts:
        for document in _with_path(part.segment, wanted):
            if part.branches[document] & bit:
                return part, document
    raise NotFound(f"file {path!r} not found on branch {branch!r} of {index.repository.name!r}")


def branch_number(index: Index, branch: str) -> int:
    """The position of a branch among those of the repository."""
    names = [each.name for each in index.repository.branches]
    # Names first, because a repository can have a branch that is called HEAD.
    if branch in names:
        return names.index(branch)
    if branch == HEAD:
        return 0
    raise NotFound(f"branch {branch!r} of {index.repository.name!r} not found; indexed branches: {names}")


def _with_path(segment: Segment, path: bytes) -> Iterator[int]:
    """The documents with exactly this path. Every name is followed by a NUL and contains none."""
    # With a NUL on both sides only whole paths match. The NUL in front also shifts all positions by one, so the
    # position of a match is that of the path in the names.
    names, wanted = b"\0" + segment.names.data.tobytes(), b"\0" + path + b"\0"
    at = names.find(wanted)
    while at >= 0:
        yield int(np.searchsorted(segment.names.starts, at))
        at = names.find(wanted, at + 1)


def _bounds(segment: Segment, document: int) -> tuple[int, int]:
    starts = segment.content.starts
    # Without the NUL that follows each document.
    return int(starts[document]), int(starts[document + 1]) - 1


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
