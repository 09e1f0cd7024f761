"""A repository in memory: implements Source for tests, examples and the simulator."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from argosy.base.errors import Invalid
from argosy.search.documents import Content, Entry, EntryKind
from argosy.search.model import BRANCHES_MAX, Branch, Repository


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A file of a repository in memory. A reason as content is what reading the file returns."""

    path: bytes
    content: Content = b""
    branches: int = 1
    kind: EntryKind = EntryKind.FILE


class MemorySource:
    """A Source of the given files."""

    def __init__(self, repository: Repository, files: Iterable[MemoryFile]) -> None:
        self._repository = repository
        self._contents: dict[tuple[bytes, bytes], Content] = {}
        entries = []
        for file in files:
            entry = _entry(file)
            if (entry.path, entry.blob_id) in self._contents:
                raise Invalid(f"{file.path!r} is given twice with the same content; give it once, on both branches")
            self._contents[entry.path, entry.blob_id] = file.content
            entries.append(entry)
        self._entries = tuple(sorted(entries, key=lambda entry: (entry.path, entry.blob_id)))

    @property
    def repository(self) -> Repository:
        return self._repository

    def entries(self) -> Sequence[Entry]:
        return self._entries

    def read(self, entries: Sequence[Entry]) -> Iterator[Content]:
        for entry in entries:
            yield self._contents[entry.path, entry.blob_id]


def one_branch(name: str, contents: Mapping[str | bytes, Content]) -> MemorySource:
    """A repository with one branch, from paths and contents."""
    return several_branches(name, {"main": contents})


def several_branches(name: str, branches: Mapping[str, Mapping[str | bytes, Content]]) -> MemorySource:
    """A repository from the paths and contents of each branch; what is equal on two of them is one file."""
    if len(branches) > BRANCHES_MAX:
        raise Invalid(f"too many branches: {len(branches)}; give at most {BRANCHES_MAX}")
    masks: dict[tuple[bytes, Content], int] = {}
    for number, contents in enumerate(branches.values()):
        for path, content in contents.items():
            key = (path if isinstance(path, bytes) else path.encode(), content)
            masks[key] = masks.get(key, 0) | 1 << number
    repository = Repository(name, branches=tuple(Branch(each) for each in branches))
    return MemorySource(repository, [MemoryFile(path, content, mask) for (path, content), mask in masks.items()])


def _entry(file: MemoryFile) -> Entry:
    content = file.content if isinstance(file.content, bytes) else file.content.name.encode()
    blob_id = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).digest()  # git's object id
    return Entry(file.path, blob_id, len(content), file.branches, file.kind)
