"""A folder without git as a source: every file below it that no ignore file excludes, as it is on the disk.

Links are listed and never followed, so a cycle of links is harmless and nothing outside is read. A folder that cannot
be listed appears as one unreadable file, rather than as if it were empty. The private folders of other tools (`.hg` and
the like) are never entered, and a bare git repository inside is listed as a submodule.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os.path import abspath

from argosy.base.clock import Clock, SystemClock
from argosy.base.errors import Invalid
from argosy.search.backends.folder_files import (
    RootDir,
    entry_of,
    folder_name,
    is_resource_exhaustion,
    open_root,
    read_files,
    resource_error,
    submodule_entry,
    unreadable_entry,
)
from argosy.search.documents import Content, Entry
from argosy.search.ignore_files import IGNORE_BYTES_MAX, IGNORE_FILES, GitIgnore, IgnoreFile
from argosy.search.model import Branch, Repository

# A mistake such as `argosy up /` should end in an error, and not in a node that lists a disk for hours.
FILES_MAX = 2_000_000
NEVER_ENTERED = frozenset({".hg", ".svn", ".bzr", ".jj", ".sl", ".pijul", "_darcs", "CVS"})
GIT_DIRECTORY = frozenset({"HEAD", "objects", "refs"})  # the contents of a bare repository
_GIT = ".git"  # a folder, or in a linked worktree a file
_GITIGNORE = ".gitignore"


class FolderSource:
    """The files below a folder; `with_ignored` includes those that an ignore file excludes.

    `clock` decides which files changed so recently that the next listing must read them again.
    """

    def __init__(self, path: str, *, with_ignored: bool = False, clock: Clock | None = None) -> None:
        self._path = abspath(path)
        self._with_ignored = with_ignored
        self._clock = clock or SystemClock()

    @property
    def repository(self) -> Repository:
        return Repository(folder_name(self._path), branches=(Branch("HEAD"),), source=self._path)

    def entries(self) -> list[Entry]:
        """Files and links; pipes, sockets and devices are omitted."""
        with open_root(self._path) as files:
            ignore_file = None if self._with_ignored else read_ignore_file(files)
            # One time for the whole listing, taken before it: a file that changes meanwhile counts as recently changed.
            walk = _Walk(files, self._path, self._clock.wall(), ignore_file)
            return sorted(walk.entries(), key=lambda entry: entry.path)

    def read(self, entries: Sequence[Entry]) -> Iterator[Content]:
        """The contents at the time when each is read."""
        return read_files(self._path, entries)


class FileSource:
    """One file. Because the user named it, no ignore file applies, and a link is followed."""

    def __init__(self, path: str, *, clock: Clock | None = None) -> None:
        self._folder, _, self._name = os.path.realpath(path).rpartition("/")
        self._folder = self._folder or "/"
        self._clock = clock or SystemClock()

    @property
    def repository(self) -> Repository:
        source = os.path.join(self._folder, self._name)
        return Repository(folder_name(self._folder), branches=(Branch("HEAD"),), source=source)

    def entries(self) -> list[Entry]:
        """The file, or nothing if it was deleted."""
        name = os.fsencode(self._name)
        with open_root(self._folder) as files:
            try:
                entry = entry_of(name, files.stat(name), self._clock.wall())
            except FileNotFoundError:
                entry = None
        return [entry] if entry else []

    def read(self, entries: Sequence[Entry]) -> Iterator[Content]:
        return read_files(self._folder, entries)


def read_ignore_file(files: RootDir) -> IgnoreFile:
    """The ignore files at the root of the folder."""
    return IgnoreFile(*(_read_small(files, path) for path in IGNORE_FILES))


def _read_small(files: RootDir, path: bytes) -> bytes:
    """The beginning of a small file; empty if there is none that can be read."""
    try:
        descriptor = files.open(path)
    except OSError:
        return b""
    try:
        return os.read(descriptor, IGNORE_BYTES_MAX)
    except OSError:  # a folder, or a pipe without a writer
        return b""
    finally:
        os.close(descriptor)


@dataclass
class _Walk:
    """One pass through a folder, depth first, so that the folders being read are among the open ones of `files`."""

    files: RootDir
    root: str
    listed_s: float
    ignore_file: IgnoreFile | None  # None: no ignore file applies
    seen: int = 0

    def entries(self) -> Iterator[Entry]:
        # Depth first with a stack, because recursion would limit the depth of folders.
        folders = [(b"", GitIgnore())]
        while folders:
            path, ignore = folders.pop()
            try:
                children = self._children(path)
            except (FileNotFoundError, NotADirectoryError):
                continue  # deleted or replaced since its parent was listed
            except OSError as error:
                yield self._unlistable(path, error)
                continue
            names = {child.name for child in children}
            if path and names >= GIT_DIRECTORY:
                yield submodule_entry(path, os.fstat(self.files.folder(path)), self.listed_s)
                continue
            if _GITIGNORE in names and self.ignore_file is not None:
                ignore = ignore.inside(path, _read_small(self.files, _join(path, _GITIGNORE)))
            yield from self._list(path, children, ignore, folders)

    def _children(self, path: bytes) -> list[os.DirEntry[str]]:
        with os.scandir(self.files.folder(path)) as children:
            result = [child for child in children if child.name != _GIT]
        self.seen += len(result)
        if self.seen > FILES_MAX:
            raise Invalid(f"more than {FILES_MAX:,} files below {self.root!r}; choose a folder further down")
        return result

    def _list(
        self, path: bytes, children: list[os.DirEntry[str]], ignore: GitIgnore, folders: list[tuple[bytes, GitIgnore]]
    ) -> Iterator[Entry]:
        """The files of one folder; its subfolders are added to `folders`."""
        for child in children:
            name = _join(path, child.name)
            is_folder = _is_folder(child)
            if ignore.is_ignored(name, is_folder=is_folder):
                continue
            if is_folder:
                if child.name not in NEVER_ENTERED:
                    folders.append((name, ignore))
            elif self.ignore_file is not None and self.ignore_file(name):
                continue
            elif (entry := self._file(name, child)) is not None:
                yield entry

    def _file(self, name: bytes, child: os.DirEntry[str]) -> Entry | None:
        try:
            return entry_of(name, child.stat(follow_symlinks=False), self.listed_s)
        except FileNotFoundError:
            return None
        except OSError:  # a folder can be readable without being searchable
            return unreadable_entry(name)

    def _unlistable(self, path: bytes, error: OSError) -> Entry:
        if is_resource_exhaustion(error):
            raise resource_error(path, error)
        if not path:
            raise Invalid(f"cannot list folder {self.root!r}: {error.strerror}; check its permissions")
        return unreadable_entry(path)


def _is_folder(child: os.DirEntry[str]) -> bool:
    try:
        return child.is_dir(follow_symlinks=False)
    except OSError:  # the listing does not contain the type, and stat is not permitted
        return False


def _join(path: bytes, name: str) -> bytes:
    encoded = os.fsencode(name)
    return path + b"/" + encoded if path else encoded
