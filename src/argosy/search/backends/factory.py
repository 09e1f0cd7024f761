"""Opens what a person names on this machine: a folder, a file, a working copy or a bare repository.

A working copy is read as it lies on the disk unless branches are named. There is no second choice: what cannot be read
as what it is, is an error.
"""

import os
import re
import stat
from collections.abc import Sequence
from os.path import dirname, exists, join, realpath, relpath

from argosy.base.errors import Invalid, NotFound, Unavailable
from argosy.base.redact import redact
from argosy.search.backends.folder import GIT_DIRECTORY, FileSource, FolderSource
from argosy.search.backends.git import GitSource
from argosy.search.backends.git_worktree import WorkingTreeSource, is_ignored
from argosy.search.documents import Source

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|[^/@\s]+@[^/:\s]+:")
_GIT = ".git"


def open_source(text: str, *, refs: Sequence[str] | None = None, with_ignored: bool = False) -> Source:
    """The source at a path; with `refs` the commits of a repository, which may be a working one.

    `with_ignored` also lists what ignore files leave out, but nothing that is git's own.
    """
    mode = _mode(text)
    path = realpath(text)  # what is above a link's target counts, not what is above the link
    if stat.S_ISREG(mode):
        if refs is not None:
            raise Invalid(f"{text!r} is a file and has no branches: name its repository, or leave the branches out")
        return FileSource(path)
    if not stat.S_ISDIR(mode):
        raise Invalid(f"{text!r} is neither a file nor a folder: name one of those")
    if _is_git_directory(path):
        return GitSource(path, refs or ("HEAD",), with_ignored=with_ignored)
    top = _working_copy(path)
    if refs is None:
        is_plain = with_ignored or top is None or _is_left_out(path, top)
        return FolderSource(path, with_ignored=with_ignored) if is_plain else WorkingTreeSource(path)
    if top is None:
        raise Invalid(f"{text!r} is no git repository and has no branches: leave the branches out")
    if top != path:
        raise Invalid(f"{text!r} is a folder inside {top!r}: name that to read its branches, and narrow with f:")
    return GitSource(path, refs, with_ignored=with_ignored)


def _mode(text: str) -> int:
    if not text or "\0" in text:
        raise Invalid(f"{text!r} is no path: name a file or a folder, such as .")
    try:
        return os.stat(text).st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        if _URL.match(text):
            url = redact(text)
            raise Invalid(f"{url!r} is a URL, and only what is on this machine is opened: clone it first") from error
        raise NotFound(f"{text!r} not found: no such file or directory") from error
    except OSError as error:
        raise Unavailable(f"{text!r} cannot be read ({error.strerror}): check its permissions") from error


def _is_git_directory(path: str) -> bool:
    """A bare repository, or the .git of a working one."""
    return all(exists(join(path, name)) for name in GIT_DIRECTORY) and not exists(join(path, _GIT))


def _working_copy(path: str) -> str | None:
    """The folder at or above `path` that is a working copy. Only that it says so is looked at here."""
    while not exists(join(path, _GIT)):
        above = dirname(path)
        if above == path:
            return None
        path = above
    return path


def _is_left_out(path: str, top: str) -> bool:
    """Whether a folder was named outright that git would list nothing in: an ignored one, or one of git's own."""
    return path != top and (_GIT in relpath(path, top).split("/") or is_ignored(path))
