"""Reading an index back: which documents there are, what is in one, what it defines."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from argosy.base.errors import NotFound
from argosy.search.documents import Category, Content, SkipReason
from argosy.search.index.index import Index, Part
from argosy.search.index.segment import Segment
from argosy.search.symbols import KINDS

HEAD = "HEAD"  # the first branch, whatever its name

_REASONS = tuple(SkipReason)


@dataclass(frozen=True, slots=True)
class Listed:
    """A document as a listing shows it."""

    path: str
    size_bytes: int  # of what is indexed
    language: str
    category: Category
    skipped: SkipReason
    branches: tuple[str, ...]
    blob_id: bytes  # padded with zeros to the width of the longest


@dataclass(frozen=True, slots=True)
class Outlined:
    """A definition in a document; `parent` is the enclosing one's position in the same outline, or -1."""

    name: str
    kind: str
    line: int  # from 1
    offset: int  # of the name, in bytes from the start of the file
    parent: int


def documents(index: Index) -> Iterator[Listed]:
    """Every document that is on a branch, in the order of the index."""
    names = [branch.name for branch in index.repository.branches]
    for part in index.parts:
        for document in np.flatnonzero(part.branches).tolist():
            yield listed(part, document, names)


def content(index: Index, path: str, branch: str = HEAD) -> bytes:
    """The text of a file as it is on that branch."""
    part, document = found(index, path, branch)
    text = content_of(part.segment, document)
    if isinstance(text, SkipReason):
        raise NotFound(f"the content of {path!r} is not indexed: {text.value}")
    return text


def content_of(segment: Segment, document: int) -> Content:
    """The text of a document, or why it has none."""
    reason = _REASONS[int(segment.table.skips[document])]
    if reason is not SkipReason.NONE:
        return reason
    start, end = _bounds(segment, document)
    return segment.content.data[start:end].tobytes()


def outline(index: Index, path: str, branch: str = HEAD) -> list[Outlined]:
    """What the file defines, in the order it stands there."""
    part, document = found(index, path, branch)
    segment = part.segment
    start, end = _bounds(segment, document)
    symbols, data = segment.symbols, segment.content.data
    first, last = np.searchsorted(symbols.starts, [start, end]).tolist()
    newlines = np.flatnonzero(data[start:end] == ord("\n")) + start
    lines = np.searchsorted(newlines, symbols.starts[first:last]) + 1
    return [
        Outlined(
            name=_text(data[at : at + length].tobytes()),
            kind=KINDS[kind],
            line=line,
            offset=at - start,
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


def listed(part: Part, document: int, branches: Sequence[str]) -> Listed:
    """A document as a listing shows it; `branches` are the names of the repository's."""
    segment, mask = part.segment, int(part.branches[document])
    start, end = _bounds(segment, document)
    return Listed(
        path=_text(segment.path(document)),
        size_bytes=end - start,
        language=segment.languages[int(segment.table.languages[document])],
        category=Category(int(segment.table.categories[document])),
        skipped=_REASONS[int(segment.table.skips[document])],
        branches=tuple(name for number, name in enumerate(branches) if mask >> number & 1),
        blob_id=segment.table.blob_ids[document].tobytes(),
    )


def found(index: Index, path: str, branch: str = HEAD) -> tuple[Part, int]:
    """The document that is at this path on that branch, and the part it is in."""
    bit = np.uint64(1 << branch_number(index, branch))
    wanted = path.encode("utf-8", "surrogateescape")
    for part in index.parts:
        for document in _with_path(part.segment, wanted):
            if part.branches[document] & bit:
                return part, document
    raise NotFound(f"there is no {path!r} on branch {branch!r} of {index.repository.name!r}")


def branch_number(index: Index, branch: str) -> int:
    """The place of a branch among the repository's."""
    names = [each.name for each in index.repository.branches]
    if branch in names:
        return names.index(branch)
    if branch == HEAD:
        return 0
    raise NotFound(f"{index.repository.name!r} has no branch {branch!r} in its index, only {names}")


def _with_path(segment: Segment, path: bytes) -> Iterator[int]:
    """The documents of that very path. Every name is followed by a NUL and holds none."""
    names, wanted = b"\0" + segment.names.data.tobytes(), b"\0" + path + b"\0"
    at = names.find(wanted)
    while at >= 0:
        yield int(np.searchsorted(segment.names.starts, at))
        at = names.find(wanted, at + 1)


def _bounds(segment: Segment, document: int) -> tuple[int, int]:
    starts = segment.content.starts
    return int(starts[document]), int(starts[document + 1]) - 1


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
