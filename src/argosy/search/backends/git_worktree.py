"""A git working copy as a source, uncommitted changes and all: tracked files and new ones that are not ignored.

git says which files there are, the disk what they hold; a file that was deleted but is still tracked is not there. The
place of a submodule, or of a repository inside this one, is marked and not entered.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from os.path import abspath

import msgspec

from argosy.base.clock import Clock, SystemClock
from argosy.search.backends.folder import own_ignore_file
from argosy.search.backends.folder_files import (
    entry_of,
    foreign,
    is_ours,
    opened,
    out_of_room,
    read_files,
    unreadable,
)
from argosy.search.backends.git import object_place
from argosy.search.backends.git_config import configured, described, on_disk
from argosy.search.backends.git_program import Git
from argosy.search.backends.git_refs import current_branch
from argosy.search.backends.openat import Beneath
from argosy.search.documents import Content, Entry
from argosy.search.ignore_files import IgnoreFile
from argosy.search.model import Branch, Repository


class WorkingTreeSource:
    """The files of a working copy below `path`, which may be a folder inside it; paths begin there."""

    def __init__(self, path: str, *, clock: Clock | None = None) -> None:
        self._path = abspath(path)
        self._git = Git.at(self._path)
        self._clock = clock or SystemClock()
        repository = on_disk(described(configured(self._git), path=self._path, name=object_place(self._git).name))
        self._repository = msgspec.structs.replace(repository, branches=(Branch(current_branch(self._git)),))

    @property
    def repository(self) -> Repository:
        """Its branch has no version: what is on the disk need not be any commit."""
        return self._repository

    def entries(self) -> list[Entry]:
        answer = self._git.run("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        # A path in conflict is told once for every side; a repository inside ends in a slash.
        paths = sorted({path.rstrip(b"/") for path in answer.split(b"\0") if path})
        prefix, is_left_out = self._ignoring()
        listed_s = self._clock.wall()
        with opened(self._path) as place:
            found = (_entry(place, path, listed_s) for path in paths if not is_left_out(prefix + path))
            return [entry for entry in found if entry is not None]

    def read(self, entries: Sequence[Entry]) -> Iterator[Content]:
        """The contents as they are when their turn comes."""
        return read_files(self._path, entries)

    def _ignoring(self) -> tuple[bytes, IgnoreFile]:
        """Where this folder is in the working copy, and what the working copy says is to be left out."""
        prefix = self._git.run("rev-parse", "--show-prefix").removesuffix(b"\n")
        top = self._git.run("rev-parse", "--show-toplevel").removesuffix(b"\n") if prefix else os.fsencode(self._path)
        with opened(os.fsdecode(top)) as place:
            return prefix, own_ignore_file(place)


def _entry(place: Beneath, path: bytes, listed_s: float) -> Entry | None:
    try:
        state = place.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None  # deleted, or a folder on the way is now a link or a file
    except OSError as error:
        if is_ours(error):
            raise out_of_room(path, error) from error
        return unreadable(path)
    if stat.S_ISDIR(state.st_mode):
        return foreign(path, state, listed_s)
    return entry_of(path, state, listed_s)


def is_ignored(path: str) -> bool:
    """Whether the working copy around this folder leaves the folder out."""
    folder, name = os.path.split(path)
    named = f"./{name}"  # by itself it might look like an option, or like one of git's patterns
    return bool(Git.at(folder).run("check-ignore", named, accepted=(0, 1)))
