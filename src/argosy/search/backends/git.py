"""Git repositories as sources: the files of some commits, or a working copy with its uncommitted changes.

Commits are resolved when the source is created: bare or working repositories, linked worktrees, shallow or partial
clones, with SHA-1 or SHA-256. Nothing is fetched, written or executed; a file whose content is not present (in a
partial clone) is reported as missing.

Of a working copy, git lists the files and the disk holds their contents: tracked files and new ones that are not
ignored. A deleted file that is still tracked is omitted. A submodule, or a repository inside this one, is listed and
not entered.
"""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from os.path import abspath

import msgspec

from argosy.base.clock import Clock, SystemClock
from argosy.base.errors import Invalid
from argosy.search.backends.folder import read_ignore_file
from argosy.search.backends.folder_files import (
    RootDir,
    entry_of,
    is_resource_exhaustion,
    open_root,
    read_files,
    resource_error,
    skip_reason,
    submodule_entry,
    unreadable_entry,
)
from argosy.search.backends.git_metadata import read_config, repository_from_config, without_file_urls
from argosy.search.backends.git_objects import ObjectDir, commit_times_s, contents, object_store, sizes, tree
from argosy.search.backends.git_program import Git
from argosy.search.backends.git_refs import branches_of, current_branch
from argosy.search.documents import Content, Entry, EntryKind
from argosy.search.ignore_files import IGNORE_FILES, IgnoreFile
from argosy.search.model import Branch, Repository

_KINDS = {b"120000": EntryKind.SYMLINK, b"160000": EntryKind.SUBMODULE}


class GitSource:
    """The files of some commits; `with_ignored` includes those that their ignore file excludes.

    The first ref is the one that a query calls HEAD.
    """

    def __init__(self, path: str, refs: Sequence[str] = ("HEAD",), *, with_ignored: bool = False) -> None:
        if not refs:
            raise Invalid("no branch given; pass at least one, or HEAD")
        path = abspath(path)
        git = Git.at(path)
        self._objects = _object_dir(git)
        self._with_ignored = with_ignored
        branches = branches_of(git, refs)
        with object_store(self._objects) as store:
            latest_s = max(commit_times_s(store, [branch.version for branch in branches]), default=0)
        repository = repository_from_config(
            read_config(git), path=path, name=self._objects.name, latest_commit_s=float(latest_s)
        )
        self._repository = msgspec.structs.replace(repository, branches=branches)

    @property
    def repository(self) -> Repository:
        return self._repository

    def entries(self) -> list[Entry]:
        """One for every path and content; the content id is git's object id."""
        branches = self._repository.branches
        with object_store(self._objects) as store:
            ignored = [IgnoreFile()] * len(branches) if self._with_ignored else _ignore_files(store, branches)
            masks = _merge_branches(store, branches, ignored)
            files = list({key[1] for key in masks if key[2] is EntryKind.FILE})
            size_of = dict(zip(files, sizes(store, files), strict=True))
        return [
            Entry(path, bytes.fromhex(blob.decode()), size_of.get(blob, 0), mask, kind)
            # Sorted, because builds of the same commits must have the same order of documents.
            for (path, blob, kind), mask in sorted(masks.items(), key=lambda item: item[0][:2])
        ]

    def read(self, entries: Sequence[Entry]) -> Iterator[Content]:
        """The contents, through one git process that ends when this iterator ends or is closed."""
        ids = [entry.blob_id.hex().encode() for entry in entries if skip_reason(entry) is None]
        # Closed with this iterator: a reader that stops early must not leave a git process behind.
        with object_store(self._objects) as store, closing(contents(store, ids)) as found:
            for entry in entries:
                yield skip_reason(entry) or next(found)


def _object_dir(git: Git) -> ObjectDir:
    """The repository's objects; those of a linked worktree are in its main repository."""
    # The path comes last because it may contain newlines.
    output = git.run("rev-parse", "--show-object-format", "--path-format=absolute", "--git-path", "objects")
    hash_name, _, objects = output.decode(errors="surrogateescape").partition("\n")
    return ObjectDir(git.place, objects.removesuffix("\n"), hash_name)


def _merge_branches(
    store: Git, branches: Sequence[Branch], ignored: Sequence[IgnoreFile]
) -> Mapping[tuple[bytes, bytes, EntryKind], int]:
    """Path, content and kind of every file that some branch does not ignore, with its branches as a bit mask."""
    records: dict[bytes, int] = {}
    for number, (branch, is_ignored) in enumerate(zip(branches, ignored, strict=True)):
        listed = tree(store, branch.version)
        if not is_ignored.is_empty:
            listed = [record for record in listed if not is_ignored(record.partition(b"\t")[2])]
        for record in listed:
            records[record] = records.get(record, 0) | 1 << number
    # Branches share nearly all records, so each is parsed once, here. Two may differ in the executable bit alone.
    masks: dict[tuple[bytes, bytes, EntryKind], int] = {}
    for record, mask in records.items():
        head, _, path = record.partition(b"\t")
        mode, _, blob = head.split(b" ", 2)
        key = path, blob, _KINDS.get(mode, EntryKind.FILE)
        masks[key] = masks.get(key, 0) | mask
    return masks


def _ignore_files(store: Git, branches: Sequence[Branch]) -> list[IgnoreFile]:
    """The ignore file of each branch."""
    names = [branch.version.encode() + b":" + name for branch in branches for name in IGNORE_FILES]
    texts = [content if isinstance(content, bytes) else b"" for content in contents(store, names)]
    width = len(IGNORE_FILES)
    return [IgnoreFile(*texts[start : start + width]) for start in range(0, len(texts), width)]


# -- working copies ----------------------------------------------------------------------------------------------------


class WorkingTreeSource:
    """The files of a working copy below `path`, which may be a folder inside it; paths are relative to it."""

    def __init__(self, path: str, *, clock: Clock | None = None) -> None:
        self._path = abspath(path)
        self._git = Git.at(self._path)
        self._clock = clock or SystemClock()
        name = _object_dir(self._git).name
        repository = without_file_urls(repository_from_config(read_config(self._git), path=self._path, name=name))
        self._repository = msgspec.structs.replace(repository, branches=(Branch(current_branch(self._git)),))

    @property
    def repository(self) -> Repository:
        """Its branch has no version: the files on the disk need not be those of any commit."""
        return self._repository

    def entries(self) -> list[Entry]:
        output = self._git.run("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        # A path in conflict is listed once for every side; a repository inside ends in a slash.
        paths = sorted({path.rstrip(b"/") for path in output.split(b"\0") if path})
        prefix, ignore_file = self._ignore_file()
        listed_s = self._clock.wall()
        with open_root(self._path) as files:
            found = (_working_entry(files, path, listed_s) for path in paths if not ignore_file(prefix + path))
            return [entry for entry in found if entry is not None]

    def read(self, entries: Sequence[Entry]) -> Iterator[Content]:
        """The contents at the time when each is read."""
        return read_files(self._path, entries)

    def _ignore_file(self) -> tuple[bytes, IgnoreFile]:
        """The path of this folder within the working copy, and the ignore file at the working copy's top."""
        prefix = self._git.run("rev-parse", "--show-prefix").removesuffix(b"\n")
        top = self._git.run("rev-parse", "--show-toplevel").removesuffix(b"\n") if prefix else os.fsencode(self._path)
        with open_root(os.fsdecode(top)) as files:
            return prefix, read_ignore_file(files)


def _working_entry(files: RootDir, path: bytes, listed_s: float) -> Entry | None:
    try:
        state = files.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None  # deleted, or a folder of its path was replaced by a link or a file
    except OSError as error:
        if is_resource_exhaustion(error):
            raise resource_error(path, error) from error
        return unreadable_entry(path)
    if stat.S_ISDIR(state.st_mode):
        return submodule_entry(path, state, listed_s)
    return entry_of(path, state, listed_s)


def is_ignored(path: str) -> bool:
    """Whether the working copy around this folder ignores it."""
    folder, name = os.path.split(path)
    argument = f"./{name}"  # the bare name could be taken for an option or a pathspec
    return bool(Git.at(folder).run("check-ignore", argument, accepted=(0, 1)))
