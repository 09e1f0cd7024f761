"""A folder without git as a source: every file below it that no ignore file leaves out, as it is on the disk.

Links are listed and never followed, so a loop of them is no loop and nothing outside is read. A folder that may not be
listed appears as one unreadable file, rather than as if it were empty. What other tools keep of their own (`.git` and
its like) is never entered, and a bare git repository in the way is marked as the place of another repository.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os.path import abspath

from argosy.base.clock import Clock, SystemClock
from argosy.base.errors import Invalid
from argosy.search.backends.folder_files import (
    entry_of,
    folder_name,
    foreign,
    is_ours,
    opened,
    out_of_room,
    read_files,
    unreadable,
)
from argosy.search.backends.openat import Beneath
from argosy.search.documents import Content, Entry
from argosy.search.ignore_files import IGNORE_BYTES_MAX, IGNORE_FILES, GitIgnore, IgnoreFile
from argosy.search.model import Branch, Repository

FILES_MAX = 2_000_000
NEVER_ENTERED = frozenset({".hg", ".svn", ".bzr", ".jj", ".sl", ".pijul", "_darcs", "CVS"})
GIT_DIRECTORY = frozenset({"HEAD", "objects", "refs"})  # what a bare repository holds
_GIT = ".git"  # a folder, or in a linked worktree a file
_GITIGNORE = ".gitignore"


class FolderSource:
    """The files below a folder; `with_ignored` also those that an ignore file leaves out.

    `clock` tells which of them changed so lately that they must be read again next time.
    """

    def __init__(self, path: str, *, with_ignored: bool = False, clock: Clock | None = None) -> None:
        self._path = abspath(path)
        self._with_ignored = with_ignored
        self._clock = clock or SystemClock()

    @property
    def repository(self) -> Repository:
        return Repository(folder_name(self._path), branches=(Branch("HEAD"),), source=self._path)

    def entries(self) -> list[Entry]:
        """Files and links; pipes, sockets and devices are left out."""
        with opened(self._path) as place:
            is_left_out = None if self._with_ignored else own_ignore_file(place)
            walk = _Walk(place, self._path, self._clock.wall(), is_left_out)
            return sorted(walk.entries(), key=lambda entry: entry.path)

    def read(self, entries: Sequence[Entry]) -> Iterator[Content]:
        """The contents as they are when their turn comes."""
        return read_files(self._path, entries)


class FileSource:
    """One file. It is named outright, so no ignore file is asked, and a link is followed."""

    def __init__(self, path: str, *, clock: Clock | None = None) -> None:
        self._folder, _, self._name = os.path.realpath(path).rpartition("/")
        self._folder = self._folder or "/"
        self._clock = clock or SystemClock()

    @property
    def repository(self) -> Repository:
        source = os.path.join(self._folder, self._name)
        return Repository(folder_name(self._folder), branches=(Branch("HEAD"),), source=source)

    def entries(self) -> list[Entry]:
        """The file, or nothing if it has gone."""
        name = os.fsencode(self._name)
        with opened(self._folder) as place:
            try:
                entry = entry_of(name, place.stat(name), self._clock.wall())
            except FileNotFoundError:
                entry = None
        return [entry] if entry else []

    def read(self, entries: Sequence[Entry]) -> Iterator[Content]:
        return read_files(self._folder, entries)


def own_ignore_file(place: Beneath) -> IgnoreFile:
    """What the folder itself says is to be left out."""
    return IgnoreFile(*(_text(place, path) for path in IGNORE_FILES))


def _text(place: Beneath, path: bytes) -> bytes:
    """The beginning of a small file; nothing if there is none that can be read."""
    try:
        descriptor = place.open(path)
    except OSError:
        return b""
    try:
        return os.read(descriptor, IGNORE_BYTES_MAX)
    except OSError:  # a folder, a pipe that nobody writes to
        return b""
    finally:
        os.close(descriptor)


@dataclass
class _Walk:
    """One way through a folder, depth first: the folders on the way stay open and are found at once."""

    place: Beneath
    root: str
    listed_s: float
    is_left_out: IgnoreFile | None  # None: no ignore file counts
    seen: int = 0

    def entries(self) -> Iterator[Entry]:
        folders = [(b"", GitIgnore())]
        while folders:
            path, ignore = folders.pop()
            try:
                children = self._children(path)
            except (FileNotFoundError, NotADirectoryError):
                continue  # it has gone, or become something else, since its own folder was listed
            except OSError as error:
                yield self._unlisted(path, error)
                continue
            names = {child.name for child in children}
            if path and names >= GIT_DIRECTORY:
                yield foreign(path, os.fstat(self.place.folder(path)), self.listed_s)
                continue
            if _GITIGNORE in names and self.is_left_out is not None:
                ignore = ignore.inside(path, _text(self.place, _joined(path, _GITIGNORE)))
            yield from self._listed(path, children, ignore, folders)

    def _children(self, path: bytes) -> list[os.DirEntry[str]]:
        with os.scandir(self.place.folder(path)) as children:
            found = [child for child in children if child.name != _GIT]
        self.seen += len(found)
        if self.seen > FILES_MAX:
            raise Invalid(f"there are more than {FILES_MAX:,} files below {self.root!r}: name a folder further down")
        return found

    def _listed(
        self, path: bytes, children: list[os.DirEntry[str]], ignore: GitIgnore, folders: list[tuple[bytes, GitIgnore]]
    ) -> Iterator[Entry]:
        for child in children:
            name = _joined(path, child.name)
            is_folder = _is_folder(child)
            if ignore.is_ignored(name, is_folder=is_folder):
                continue
            if is_folder:
                if child.name not in NEVER_ENTERED:
                    folders.append((name, ignore))
            elif self.is_left_out is not None and self.is_left_out(name):
                continue
            elif (entry := self._file(name, child)) is not None:
                yield entry

    def _file(self, name: bytes, child: os.DirEntry[str]) -> Entry | None:
        try:
            return entry_of(name, child.stat(follow_symlinks=False), self.listed_s)
        except FileNotFoundError:
            return None
        except OSError:  # a folder may show its names and yet let nobody pass
            return unreadable(name)

    def _unlisted(self, path: bytes, error: OSError) -> Entry:
        if is_ours(error):
            raise out_of_room(path, error)
        if not path:
            raise Invalid(f"the folder {self.root!r} cannot be listed ({error.strerror}): check its permissions")
        return unreadable(path)


def _is_folder(child: os.DirEntry[str]) -> bool:
    try:
        return child.is_dir(follow_symlinks=False)
    except OSError:  # where the listing does not say, and nobody may ask
        return False


def _joined(path: bytes, name: str) -> bytes:
    encoded = os.fsencode(name)
    return path + b"/" + encoded if path else encoded
