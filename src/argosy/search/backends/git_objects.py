"""Reads trees and blobs by object id, through an empty repository of our own that uses another's object directory.

The other repository's configuration is not read: nothing in it can start a program, and a partial clone is not
recognised as one, so that an object that was never fetched is missing instead of fetched (git before 2.45 has no other
way). Object ids are hashes of the content, so reading needs no lock and sees one state while the repository changes.
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
from argosy.search.backends.git_program import READ_BYTES, Git, RunningGit, environment
from argosy.search.documents import DOCUMENT_BYTES_MAX, Content, SkipReason

DAMAGED_MAX = 16  # git ends at a damaged object and is started again behind it; more than this mean a broken disk
_FORMATS = {
    "sha1": "[core]\n\trepositoryformatversion = 0\n",
    "sha256": "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n",
}


@dataclass(frozen=True)
class ObjectDir:
    """The object directory of a repository, and the hash of its object ids."""

    repository: str
    objects: str
    hash_name: str

    @property
    def name(self) -> str:
        """The repository's name by its folder; a linked worktree has that of its main repository."""
        return _name_from_path(dirname(self.objects))


def _name_from_path(path: str) -> str:
    """The name of a repository by its path: without `.git`, the suffix of a bare one or the folder in a working
    copy."""
    return folder_name(dirname(path) if basename(path) == ".git" else path.removesuffix(".git"))


@contextmanager
def object_store(place: ObjectDir) -> Iterator[Git]:
    """A git that reads these objects and no configuration."""
    if place.hash_name not in _FORMATS:
        raise Unavailable(f"unsupported object format {place.hash_name!r} in {place.repository!r}; upgrade argosy")
    with TemporaryDirectory(prefix="argosy-git-") as gitdir:
        # git accepts a directory as a repository only with these three.
        (Path(gitdir) / "refs").mkdir()
        (Path(gitdir) / "HEAD").write_text("ref: refs/heads/none\n")
        (Path(gitdir) / "config").write_text(_FORMATS[place.hash_name])
        variables = {
            **environment(),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": devnull,
            "GIT_OBJECT_DIRECTORY": place.objects,
        }
        yield Git(place.repository, (f"--git-dir={gitdir}",), variables)


def tree(store: Git, commit: str) -> list[bytes]:
    """Every file below a commit's root as `mode type id TAB path`."""
    # Without -l, which would look up the sizes for each branch. The output ends in a NUL, so the last item is empty.
    return store.run("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")[:-1]


def sizes(store: Git, ids: Sequence[bytes]) -> list[int]:
    """The sizes of objects by their ids in hexadecimal; 0 for one that is missing."""
    if not ids:
        return []
    output = store.run("cat-file", "--batch-check=%(objectsize)", "--buffer", feed=_lines(ids))
    return [int(line) if line.isdigit() else 0 for line in output.splitlines()]


def commit_times_s(store: Git, commits: Sequence[str]) -> list[int]:
    """The commit times, in no particular order."""
    if not commits:
        return []
    output = store.run("rev-list", "--no-walk=unsorted", "--timestamp", *commits)
    return [int(line.split()[0]) for line in output.splitlines()]


def contents(store: Git, names: Sequence[bytes]) -> Generator[Content, None, None]:
    """The blobs in the order of `names`, which are ids in hexadecimal, or `commit:path`.

    Read-ahead is bounded by the pipe: git blocks until its output is read.
    """
    done = damaged = 0
    while done < len(names):
        with store.stream("cat-file", "--batch", "--buffer", feed=_lines(names[done:])) as running:
            for content in _blobs(running):
                done += 1
                yield content
            if running.code() == 0:
                break
            error = running.error()
        damaged += 1
        # A negative code means that git was killed, which repeating would not change.
        if damaged > DAMAGED_MAX or not isinstance(error, Unavailable) or running.code() < 0:
            raise error
        done += 1
        yield SkipReason.UNREADABLE
    if done < len(names):
        raise Unavailable(
            f"git returned {len(names) - done} objects too few from {store.place!r}; check it with `git fsck`"
        )


def _blobs(running: RunningGit) -> Iterator[Content]:
    """Parses the output of `cat-file --batch`, until git ends, possibly in the middle of an object."""
    out = running.out
    while header := out.readline():
        words = header.split()
        if words[-1] in (b"missing", b"ambiguous"):
            yield SkipReason.MISSING
            continue
        kind, size = words[-2], int(words[-1])
        if kind != b"blob" or size > DOCUMENT_BYTES_MAX:
            if not _skip(running, size + 1):
                return
            yield SkipReason.TOO_LARGE if kind == b"blob" else SkipReason.UNREADABLE
            continue
        content = out.read(size)
        if out.read(1) != b"\n":  # git adds a newline to every content
            return
        yield content


def _skip(running: RunningGit, length: int) -> bool:
    """Reads and discards; False if git ended before."""
    while length and (chunk := running.out.read(min(length, READ_BYTES))):
        length -= len(chunk)
    return length == 0


def _lines(names: Iterable[bytes]) -> bytes:
    return b"".join(name + b"\n" for name in names)
