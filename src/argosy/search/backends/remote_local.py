"""Repositories on this machine: folders and working copies as they lie there, bare ones and named branches as git.

What a folder holds is no commit, so its version is a fingerprint of what is listed: paths, sizes and times, as
`folder_files` names contents without reading them. Listing costs about ten microseconds a file, and any change of any
file is seen. A file that changed within the last two seconds gives another fingerprint the next time, by intention: it
might have changed again within one tick of the disk's clock.
"""

from collections.abc import Iterator, Sequence

import msgspec
import xxhash

from argosy.base.errors import NotFound
from argosy.search.backends.factory import open_source
from argosy.search.documents import Content, Entry, Source
from argosy.search.model import Branch, Repository

_LISTED = "files-"  # so that nobody takes it for a commit


class LocalSource:
    """What is at a path, listed once: the listing that is fingerprinted is the one that is read."""

    def __init__(self, inner: Source) -> None:
        self._inner = inner
        self._entries: Sequence[Entry] | None = None
        repository = inner.repository
        if all(branch.version for branch in repository.branches):
            self._repository = repository
        else:
            self._entries = inner.entries()
            branches = tuple(Branch(branch.name, _fingerprint(self._entries)) for branch in repository.branches)
            self._repository = msgspec.structs.replace(repository, branches=branches)

    @property
    def repository(self) -> Repository:
        return self._repository

    def entries(self) -> Sequence[Entry]:
        return self._inner.entries() if self._entries is None else self._entries

    def read(self, entries: Sequence[Entry]) -> Iterator[Content]:
        return self._inner.read(entries)


def local_source(path: str, branches: Sequence[str]) -> LocalSource:
    source = LocalSource(open_source(path, refs=branches or None))
    if not source.repository.branches:
        raise NotFound(f"{path} is empty: make a first commit there")
    return source


def _fingerprint(entries: Sequence[Entry]) -> str:
    digest = xxhash.xxh3_128()
    for entry in entries:
        digest.update(b"%d %s %s\0" % (len(entry.path), entry.path, entry.blob_id))
    return _LISTED + digest.hexdigest()
