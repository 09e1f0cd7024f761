"""Reads trees and blobs by their ids, through an empty repository of our own that borrows another's objects.

The other repository's configuration plays no part in it: nothing there can start a program, and a partial clone does
not look like one, so an object that was never fetched is simply missing (git before 2.45 knows no other way).
Objects are named by their content, so reading needs no lock and sees one state however the repository moves on.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import devnull
from os.path import basename, dirname
from pathlib import Path
from tempfile import TemporaryDirectory

from argosy.base.errors import Unavailable
from argosy.search.backends.folder_files import folder_name
from argosy.search.backends.git_program import READ_BYTES, Git, Running, environment
from argosy.search.documents import DOCUMENT_BYTES_MAX, Content, SkipReason

DAMAGED_MAX = 16  # git gives up at a damaged object and is started anew behind it; more mean a broken disk
_FORMATS = {
    "sha1": "[core]\n\trepositoryformatversion = 0\n",
    "sha256": "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n",
}


@dataclass(frozen=True)
class ObjectPlace:
    """Where a repository keeps its objects, and by which hash they are named."""

    repository: str
    objects: str
    hash_name: str

    @property
    def name(self) -> str:
        """What the repository is called after its folder, which a linked worktree shares with it."""
        return named_after(dirname(self.objects))


def named_after(path: str) -> str:
    """What a folder is called as a repository: without `.git`, which a bare one ends in and a working one holds."""
    return folder_name(dirname(path) if basename(path) == ".git" else path.removesuffix(".git"))


@contextmanager
def object_store(place: ObjectPlace) -> Iterator[Git]:
    """A git that sees those objects and nothing else."""
    if place.hash_name not in _FORMATS:
        raise Unavailable(f"the objects of {place.repository!r} are named by {place.hash_name}: use a later release")
    with TemporaryDirectory(prefix="argosy-git-") as room:
        (Path(room) / "refs").mkdir()
        (Path(room) / "HEAD").write_text("ref: refs/heads/none\n")
        (Path(room) / "config").write_text(_FORMATS[place.hash_name])
        variables = {
            **environment(),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": devnull,
            "GIT_OBJECT_DIRECTORY": place.objects,
        }
        yield Git(place.repository, (f"--git-dir={room}",), variables)


def tree(store: Git, commit: str) -> list[bytes]:
    """Every file below a commit's root as `mode type id TAB path`."""
    # Without -l: it looks sizes up again for every branch. The answer ends in a NUL, so the last piece is empty.
    return store.run("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")[:-1]


def sizes(store: Git, ids: Sequence[bytes]) -> list[int]:
    """The sizes of objects by their ids in hexadecimal; 0 for one that is missing."""
    if not ids:
        return []
    answer = store.run("cat-file", "--batch-check=%(objectsize)", "--buffer", feed=_lines(ids))
    return [int(line) if line.isdigit() else 0 for line in answer.splitlines()]


def commit_times_s(store: Git, commits: Sequence[str]) -> list[int]:
    """When each was committed, in no particular order."""
    if not commits:
        return []
    answer = store.run("rev-list", "--no-walk=unsorted", "--timestamp", *commits)
    return [int(line.split()[0]) for line in answer.splitlines()]


def contents(store: Git, names: Sequence[bytes]) -> Generator[Content, None, None]:
    """The blobs in the order asked for. Names are ids in hexadecimal, or `commit:path`.

    Read-ahead is bounded by the pipe: git waits until what it has written is taken.
    """
    done = damaged = 0
    while done < len(names):
        with store.stream("cat-file", "--batch", "--buffer", feed=_lines(names[done:])) as running:
            for content in _answers(running):
                done += 1
                yield content
            if running.code() == 0:
                break
            error = running.error()
        damaged += 1
        if damaged > DAMAGED_MAX or not isinstance(error, Unavailable) or running.code() < 0:
            raise error
        done += 1
        yield SkipReason.UNREADABLE
    if done < len(names):
        raise Unavailable(f"git left out {len(names) - done} objects of {store.place!r}: look at it with `git fsck`")


def _answers(running: Running) -> Iterator[Content]:
    """What git answers, until it ends or breaks off in the midst of an object."""
    out = running.out
    while header := out.readline():
        words = header.split()
        if words[-1] in (b"missing", b"ambiguous"):
            yield SkipReason.MISSING
            continue
        kind, size = words[-2], int(words[-1])
        if kind != b"blob" or size > DOCUMENT_BYTES_MAX:
            if not _passed_over(running, size + 1):
                return
            yield SkipReason.TOO_LARGE if kind == b"blob" else SkipReason.UNREADABLE
            continue
        content = out.read(size)
        if out.read(1) != b"\n":  # which git adds to every content
            return
        yield content


def _passed_over(running: Running, length: int) -> bool:
    while length and (chunk := running.out.read(min(length, READ_BYTES))):
        length -= len(chunk)
    return length == 0


def _lines(names: Iterable[bytes]) -> bytes:
    return b"".join(name + b"\n" for name in names)
