"""From the paths on the command line to a shelf of indexes.

Every folder and repository is an index of its own; files that were named one by one share one, whatever their number.
Paths that cannot be opened are refused before anything is read.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from argosy.base.errors import Invalid
from argosy.cli.search_flags import Flags
from argosy.cli.search_progress import Stage
from argosy.cli.terminal_text import safe_name

if TYPE_CHECKING:
    from argosy.search.documents import Content, Entry, SkipReason, Source
    from argosy.search.index.index import Index
    from argosy.search.model import FileMatch, Repository
    from argosy.search.skip_policy import Policy

PATHS_MAX = 10_000  # folders and repositories; each takes a few megabytes however small it is
HERE = "."

Opened: TypeAlias = "list[tuple[str, Source, Policy]]"


class NamedFiles:
    """Files that were named one by one, by these names, as a source."""

    def __init__(self, named: "Mapping[str, Source]") -> None:
        self._sources = {os.fsencode(name): source for name, source in named.items()}
        self._entries: dict[bytes, Entry] = {}

    @property
    def repository(self) -> "Repository":
        from argosy.search.model import Branch, Repository

        return Repository("files", branches=(Branch("HEAD"),))

    def entries(self) -> "list[Entry]":
        self._entries = {name: entry for name, source in self._sources.items() for entry in source.entries()}
        return [replace(entry, path=name) for name, entry in sorted(self._entries.items())]

    def read(self, entries: "Sequence[Entry]") -> "Iterator[Content]":
        for entry in entries:
            yield from self._sources[entry.path].read([self._entries[entry.path]])


@dataclass(frozen=True)
class Shelved:
    """Indexes, and for each what stands before the paths in it when they are shown."""

    indexes: "tuple[Index, ...]"
    prefixes: dict[str, str]
    duration_s: float

    def name_of(self, file: "FileMatch") -> str:
        """The file as a person would name it from where they are."""
        return os.path.join(self.prefixes[file.repository], file.path)

    def place_of(self, repository: str) -> str:
        return self.prefixes[repository] or HERE


def opened(flags: Flags) -> Opened:
    """The sources that the paths name, each once, with what may be in their indexes."""
    from argosy.search.backends.factory import open_source
    from argosy.search.backends.folder import FileSource
    from argosy.search.documents import DOCUMENT_BYTES_MAX
    from argosy.search.skip_policy import Policy

    found, files = [], {}
    policy = Policy(large_files=flags.large_file)
    for path in _distinct(flags.paths or (HERE,)):
        source = open_source(path, refs=flags.branch or None, with_ignored=flags.no_ignore)
        if isinstance(source, FileSource):
            files[path] = source
        else:
            found.append((path, source, policy))
    if len(found) > PATHS_MAX:
        raise Invalid(f"{len(found)} folders were named, and {PATHS_MAX} can be: name one that holds them")
    if files:
        # Whoever names a file wants it searched, whatever its size.
        anything = Policy(size_bytes_max=DOCUMENT_BYTES_MAX, trigrams_max=DOCUMENT_BYTES_MAX)
        found.append(("", NamedFiles(files), anything))
    return found


def _distinct(paths: Sequence[str]) -> list[str]:
    """The paths without those that are the same place as one before; what is no place is for others to refuse."""
    seen: dict[object, str] = {}
    for path in paths:
        key: object = path
        with suppress(OSError, ValueError):
            state = os.stat(path)
            key = state.st_dev, state.st_ino
        seen.setdefault(key, path)
    return list(seen.values())


def indexed(sources: Opened, flags: Flags, stage: Stage) -> Shelved:
    """Every source indexed, one after the other."""
    from argosy.search.index.build import build

    began = time.monotonic()
    indexes: list[Index] = []
    prefixes: dict[str, str] = {}
    for number, (path, source, policy) in enumerate(sources, 1):
        shown = safe_name(path or "files")
        stage.begin(f"indexing {shown}" if len(sources) == 1 else f"indexing {shown} ({number} of {len(sources)})")
        index = build(source, policy, progress=stage.tell, with_symbols=flags.symbols)
        name = _unused(index.repository.name, lambda name: name in prefixes)
        prefixes[name] = "" if path in (HERE, "./") else path
        indexes.append(index if name == index.repository.name else _renamed(index, name))
    return Shelved(tuple(indexes), prefixes, time.monotonic() - began)


def _unused(name: str, is_used: Callable[[str], bool]) -> str:
    """Two folders may well have one name; on a shelf each has its own."""
    number, found = 1, name
    while is_used(found):
        number += 1
        found = f"{name} ({number})"
    return found


def _renamed(index: "Index", name: str) -> "Index":
    import msgspec

    return replace(index, repository=msgspec.structs.replace(index.repository, name=name))


@dataclass(frozen=True)
class Survey:
    """What is on a shelf: files by what is known of their content, and one of those that could not be read."""

    files: int
    text_bytes: int
    memory_bytes: int
    skipped: "Counter[SkipReason]"
    unread: str


def survey(shelf: Shelved) -> Survey:
    """Counted in the arrays: there may be a million files."""
    from argosy.search.documents import SkipReason
    from argosy.search.index.memory_usage import memory_bytes, text_bytes

    reasons = tuple(SkipReason)
    skipped: Counter[SkipReason] = Counter()
    files, unread = 0, ""
    for index in shelf.indexes:
        for part in index.parts:
            is_alive, skips = part.branches != 0, part.segment.table.skips
            files += int(is_alive.sum())
            for code, reason in enumerate(reasons[1:], 1):
                found = (is_alive & (skips == code)).nonzero()[0]
                skipped[reason] += len(found)
                if reason in (SkipReason.UNREADABLE, SkipReason.MISSING) and len(found) and not unread:
                    path = part.segment.path(int(found[0])).decode("utf-8", "surrogateescape")
                    unread = os.path.join(shelf.prefixes[index.repository.name], path)
    return Survey(
        files=files,
        text_bytes=sum(map(text_bytes, shelf.indexes)),
        memory_bytes=sum(map(memory_bytes, shelf.indexes)),
        skipped=+skipped,
        unread=unread,
    )
