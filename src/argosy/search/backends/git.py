"""A git repository as a source: bare or working, linked worktree, shallow or partial clone, named by SHA-1 or SHA-256.

What is read is settled when the source is made: the commits the refs led to at that moment. Nothing is fetched, written
or run; a file whose content is not here (a partial clone) is told as missing.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from os.path import abspath

import msgspec

from argosy.base.errors import Invalid
from argosy.search.backends.folder_files import unread
from argosy.search.backends.git_config import configured, described
from argosy.search.backends.git_objects import ObjectPlace, commit_times_s, contents, object_store, sizes, tree
from argosy.search.backends.git_program import Git
from argosy.search.backends.git_refs import branches_of
from argosy.search.documents import Content, Entry, EntryKind
from argosy.search.ignore_files import IGNORE_FILES, IgnoreFile
from argosy.search.model import Branch, Repository

_KINDS = {b"120000": EntryKind.SYMLINK, b"160000": EntryKind.SUBMODULE}


class GitSource:
    """The files of some commits; `with_ignored` also those that their ignore file leaves out.

    The first ref is the one a query calls HEAD.
    """

    def __init__(self, path: str, refs: Sequence[str] = ("HEAD",), *, with_ignored: bool = False) -> None:
        if not refs:
            raise Invalid("no branch was named: name at least one, or HEAD")
        path = abspath(path)
        git = Git.at(path)
        self._place = object_place(git)
        self._with_ignored = with_ignored
        branches = branches_of(git, refs)
        with object_store(self._place) as store:
            latest_s = max(commit_times_s(store, [branch.version for branch in branches]), default=0)
        repository = described(configured(git), path=path, name=self._place.name, latest_commit_s=float(latest_s))
        self._repository = msgspec.structs.replace(repository, branches=branches)

    @property
    def repository(self) -> Repository:
        return self._repository

    def entries(self) -> list[Entry]:
        """One for every path with a content of its own; the content's id is git's."""
        branches = self._repository.branches
        with object_store(self._place) as store:
            ignored = [IgnoreFile()] * len(branches) if self._with_ignored else _ignore_files(store, branches)
            masks = _merged(store, branches, ignored)
            files = list({key[1] for key in masks if key[2] is EntryKind.FILE})
            size_of = dict(zip(files, sizes(store, files), strict=True))
        return [
            Entry(path, bytes.fromhex(blob.decode()), size_of.get(blob, 0), mask, kind)
            for (path, blob, kind), mask in sorted(masks.items(), key=lambda item: item[0][:2])
        ]

    def read(self, entries: Sequence[Entry]) -> Iterator[Content]:
        """The contents through one git for all of them; it has ended when this iterator has, or was closed."""
        asked = [entry.blob_id.hex().encode() for entry in entries if unread(entry) is None]
        with object_store(self._place) as store, closing(contents(store, asked)) as answers:
            for entry in entries:
                yield unread(entry) or next(answers)


def object_place(git: Git) -> ObjectPlace:
    """Where the repository's objects are; for a linked worktree that is in the repository it belongs to."""
    # The path comes last and may hold newlines.
    answer = git.run("rev-parse", "--show-object-format", "--path-format=absolute", "--git-path", "objects")
    hash_name, _, objects = answer.decode(errors="surrogateescape").partition("\n")
    return ObjectPlace(git.place, objects.removesuffix("\n"), hash_name)


def _merged(
    store: Git, branches: Sequence[Branch], ignored: Sequence[IgnoreFile]
) -> Mapping[tuple[bytes, bytes, EntryKind], int]:
    """Path, content and kind of every file that some branch does not ignore, with the branches it is on."""
    records: dict[bytes, int] = {}
    for number, (branch, is_ignored) in enumerate(zip(branches, ignored, strict=True)):
        listed = tree(store, branch.version)
        if not is_ignored.is_empty:
            listed = [record for record in listed if not is_ignored(record.partition(b"\t")[2])]
        for record in listed:
            records[record] = records.get(record, 0) | 1 << number
    # Branches share nearly all records, so only now is each taken apart. Two may differ in the executable bit alone.
    masks: dict[tuple[bytes, bytes, EntryKind], int] = {}
    for record, mask in records.items():
        head, _, path = record.partition(b"\t")
        mode, _, blob = head.split(b" ", 2)
        key = path, blob, _KINDS.get(mode, EntryKind.FILE)
        masks[key] = masks.get(key, 0) | mask
    return masks


def _ignore_files(store: Git, branches: Sequence[Branch]) -> list[IgnoreFile]:
    """What each branch says is to be left out."""
    names = [branch.version.encode() + b":" + name for branch in branches for name in IGNORE_FILES]
    texts = [content if isinstance(content, bytes) else b"" for content in contents(store, names)]
    width = len(IGNORE_FILES)
    return [IgnoreFile(*texts[start : start + width]) for start in range(0, len(texts), width)]
