"""Opens a path on this machine as a source: a folder, a file, a working copy or a bare repository.

A working copy is read from the disk unless branches are named. Nothing falls back silently: a path that cannot be read
as what it is, is an error.

For the fleet a source needs a version, to detect changes. A folder has no commit, so its version is a fingerprint of
its listing: paths, sizes and times (see `folder_files`). Listing costs about ten microseconds a file and detects any
change of any file. A file that changed within the last two seconds gives another fingerprint the next time, because it
may have changed again within one tick of the disk's clock.
"""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from os.path import dirname, exists, join, realpath, relpath

import msgspec
import xxhash

from argosy.base.errors import Invalid, NotFound, Unavailable
from argosy.base.redact import redact
from argosy.search.backends.folder import GIT_DIRECTORY, FileSource, FolderSource
from argosy.search.backends.git import GitSource, WorkingTreeSource, is_ignored
from argosy.search.documents import Content, Entry, Source
from argosy.search.model import Branch, Repository

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|[^/@\s]+@[^/:\s]+:")
_GIT = ".git"
_FINGERPRINT = "files-"  # a prefix that cannot be mistaken for a commit


def open_source(text: str, *, refs: Sequence[str] | None = None, with_ignored: bool = False) -> Source:
    """The source at a path. With `refs` it is the commits of a repository, also of a working copy.

    `with_ignored` includes what ignore files exclude, but never git's own files.
    """
    mode = _mode(text)
    path = realpath(text)  # the working copy around a link's target counts, not the one around the link
    if stat.S_ISREG(mode):
        if refs is not None:
            raise Invalid(f"{text!r} is a file and has no branches; pass its repository, or omit the branches")
        return FileSource(path)
    if not stat.S_ISDIR(mode):
        raise Invalid(f"{text!r} is neither a file nor a folder")
    if _is_git_directory(path):
        return GitSource(path, refs or ("HEAD",), with_ignored=with_ignored)
    top = _working_copy(path)
    if refs is None:
        is_plain = with_ignored or top is None or _is_ignored_inside(path, top)
        return FolderSource(path, with_ignored=with_ignored) if is_plain else WorkingTreeSource(path)
    if top is None:
        raise Invalid(f"{text!r} is not a git repository and has no branches; omit the branches")
    if top != path:
        raise Invalid(f"{text!r} is a folder inside {top!r}; pass that to read its branches, and restrict with f:")
    return GitSource(path, refs, with_ignored=with_ignored)


def _mode(text: str) -> int:
    if not text or "\0" in text:
        raise Invalid(f"{text!r} is not a path; pass a file or a folder, such as .")
    try:
        return os.stat(text).st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        if _URL.match(text):
            url = redact(text)
            raise Invalid(f"{url!r} is a URL, and only local paths can be opened; clone it first") from error
        raise NotFound(f"{text!r} not found: no such file or directory") from error
    except OSError as error:
        raise Unavailable(f"cannot read {text!r}: {error.strerror}; check its permissions") from error


def _is_git_directory(path: str) -> bool:
    """A bare repository, or the .git of a working copy."""
    # A working copy may contain files of these names.
    return all(exists(join(path, name)) for name in GIT_DIRECTORY) and not exists(join(path, _GIT))


def _working_copy(path: str) -> str | None:
    """The nearest folder at or above `path` with a `.git`, whether or not git accepts it as a repository."""
    while not exists(join(path, _GIT)):
        above = dirname(path)
        if above == path:
            return None
        path = above
    return path


def _is_ignored_inside(path: str, top: str) -> bool:
    """Whether the user named a folder in which git lists nothing: an ignored one, or one of git's own."""
    return path != top and (_GIT in relpath(path, top).split("/") or is_ignored(path))


# -- sources with a version --------------------------------------------------------------------------------------------


class FingerprintedSource:
    """A source whose every branch has a version. It is listed once: the fingerprint is of the listing that is read."""

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


def open_local(path: str, branches: Sequence[str]) -> FingerprintedSource:
    source = FingerprintedSource(open_source(path, refs=branches or None))
    if not source.repository.branches:
        raise NotFound(f"{path} is empty; commit something first")
    return source


def _fingerprint(entries: Sequence[Entry]) -> str:
    digest = xxhash.xxh3_128()
    for entry in entries:
        # The length separates path and id, because a path may contain any byte but NUL.
        digest.update(b"%d %s %s\0" % (len(entry.path), entry.path, entry.blob_id))
    return _FINGERPRINT + digest.hexdigest()
