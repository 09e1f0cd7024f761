"""Opens and indexes the paths on the command line.

Every directory and repository gets an index of its own; all files that are named individually share one. A path that
cannot be opened is an error before any file is read.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from argosy.base.errors import Invalid
from argosy.cli.output import safe_name
from argosy.cli.search_flags import Flags
from argosy.cli.search_progress import SearchProgress

if TYPE_CHECKING:
    from argosy.search.documents import Content, Entry, SkipReason, Source
    from argosy.search.index.index import Index
    from argosy.search.model import FileMatch, Repository
    from argosy.search.skip_policy import Policy


PATHS_MAX = 10_000  # directories and repositories; each index takes a few megabytes, however small
HERE = "."

OpenSources: TypeAlias = "list[tuple[str, Source, Policy]]"


class NamedFiles:
    """A source of individually named files."""

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
class LoadedPaths:
    """The indexes of all paths; `prefixes` has the path to print before file names, by repository."""

    indexes: "tuple[Index, ...]"
    prefixes: dict[str, str]
    duration_s: float

    def name_of(self, file: "FileMatch") -> str:
        """The path of the file relative to the working directory."""
        return os.path.join(self.prefixes[file.repository], file.path)

    def path_of(self, repository: str) -> str:
        return self.prefixes[repository] or HERE


def open_sources(flags: Flags) -> OpenSources:
    """The sources of the paths, without duplicates, each with its skip policy."""
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
        raise Invalid(f"too many paths: {len(found)}; the limit is {PATHS_MAX}; pass a parent directory")
    if files:
        # A file that is named explicitly is searched whatever its size.
        anything = Policy(size_bytes_max=DOCUMENT_BYTES_MAX, trigrams_max=DOCUMENT_BYTES_MAX)
        found.append(("", NamedFiles(files), anything))
    return found


def _distinct(paths: Sequence[str]) -> list[str]:
    """The paths without duplicates of the same inode. A missing path is kept; opening it reports the error."""
    seen: dict[object, str] = {}
    for path in paths:
        key: object = path
        with suppress(OSError, ValueError):
            state = os.stat(path)
            # By inode: `src`, `./src` and a link to it are one directory, whose matches must not be printed twice.
            key = state.st_dev, state.st_ino
        seen.setdefault(key, path)
    return list(seen.values())


def index_sources(sources: OpenSources, flags: Flags, progress: SearchProgress) -> LoadedPaths:
    """Indexes the sources, one after the other."""
    from argosy.search.index.build import build

    began = time.monotonic()
    indexes: list[Index] = []
    prefixes: dict[str, str] = {}
    for number, (path, source, policy) in enumerate(sources, 1):
        shown = safe_name(path or "files")
        progress.begin(f"indexing {shown}" if len(sources) == 1 else f"indexing {shown} ({number} of {len(sources)})")
        index = build(source, policy, progress=progress.on_progress, with_symbols=flags.symbols)
        # Results are looked up by repository name, so `a/src` and `b/src` need two names.
        name = _unused_name(index.repository.name, lambda name: name in prefixes)
        prefixes[name] = "" if path in (HERE, "./") else path
        indexes.append(index if name == index.repository.name else _with_name(index, name))
    return LoadedPaths(tuple(indexes), prefixes, time.monotonic() - began)


def _unused_name(name: str, is_used: Callable[[str], bool]) -> str:
    """Two directories may have the same name, but names are unique in an index set."""
    number, found = 1, name
    while is_used(found):
        number += 1
        found = f"{name} ({number})"
    return found


def _with_name(index: "Index", name: str) -> "Index":
    import msgspec

    return replace(index, repository=msgspec.structs.replace(index.repository, name=name))


@dataclass(frozen=True)
class IndexSummary:
    """Totals of the loaded indexes: files, skipped files by reason, and the path of one unreadable file."""

    files: int
    text_bytes: int
    memory_bytes: int
    skipped: "Counter[SkipReason]"
    unread: str


def summarize(loaded: LoadedPaths) -> IndexSummary:
    """Counts in the arrays of the indexes, because there may be a million files."""
    from argosy.search.documents import SkipReason
    from argosy.search.index.sections import memory_bytes, text_bytes

    reasons = tuple(SkipReason)
    skipped: Counter[SkipReason] = Counter()
    files, unread = 0, ""
    for index in loaded.indexes:
        for part in index.parts:
            is_alive, skips = part.branches != 0, part.segment.table.skips
            files += int(is_alive.sum())
            # The first reason means that nothing was skipped.
            for code, reason in enumerate(reasons[1:], 1):
                found = (is_alive & (skips == code)).nonzero()[0]
                skipped[reason] += len(found)
                if reason in (SkipReason.UNREADABLE, SkipReason.MISSING) and len(found) and not unread:
                    path = part.segment.path(int(found[0])).decode("utf-8", "surrogateescape")
                    unread = os.path.join(loaded.prefixes[index.repository.name], path)
    return IndexSummary(
        files=files,
        text_bytes=sum(map(text_bytes, loaded.indexes)),
        memory_bytes=sum(map(memory_bytes, loaded.indexes)),
        # The plus drops reasons with a count of zero.
        skipped=+skipped,
        unread=unread,
    )
