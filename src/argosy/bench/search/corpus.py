"""The text that all programs search.

Argosy indexes binaries, very large files and tables of numbers without their content; a peer that had to read them
would do other work. So the files that Argosy indexes are placed in a directory of their own, as hard links where the
file system allows it and else as copies, and all programs search that directory.
"""

import os
import shutil
import sysconfig
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from argosy.base.errors import Invalid
from argosy.search.backends.folder import FolderSource
from argosy.search.documents import Entry, SkipReason
from argosy.search.kernels.trigrams import CLASSES, distinct_keys
from argosy.search.skip_policy import Policy, reason_before_reading, reason_to_skip

QUICK_BYTES_MIN = 150_000_000  # what a quick run should search at least


@dataclass(frozen=True)
class Corpus:
    """A directory of text, and what was left out of it."""

    name: str
    directory: Path
    files: int
    text_bytes: int
    left_out: Mapping[str, int]  # number of files, by reason


def tree_roots(path: str) -> dict[str, Path]:
    """The tree of `--corpus`."""
    directory = Path(path)
    if not directory.is_dir():
        raise Invalid(f"{path!r} is not a directory; pass a large tree with --corpus, or --quick without it")
    return {"": directory.resolve()}


def environment_roots() -> dict[str, Path]:
    """The standard library and the packages of this environment: a corpus that every machine has."""
    paths = sysconfig.get_paths()
    directories = sorted({Path(paths[name]).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")})
    outer = [each for each in directories if not any(other in each.parents for other in directories)]
    return {f"{number}-{each.name}": each for number, each in enumerate(outer)}


def prepare_corpus(name: str, roots: Mapping[str, Path], directory: Path, policy: Policy) -> Corpus:
    """Place all files below the roots that are indexed with their content in `directory`."""
    files = text_bytes = 0
    left_out: Counter[str] = Counter()
    for subdirectory, root in roots.items():
        for entry, size_bytes, reason in _read_all(root, policy):
            if reason is not SkipReason.NONE:
                left_out[reason.value] += 1
                continue
            _link(root / os.fsdecode(entry.path), directory / subdirectory / os.fsdecode(entry.path))
            files, text_bytes = files + 1, text_bytes + size_bytes
    if not files:
        raise Invalid(f"no text found in {name!r}; pass a tree of source code with --corpus")
    return Corpus(name, directory, files, text_bytes, dict(left_out))


def _read_all(root: Path, policy: Policy) -> Iterator[tuple[Entry, int, SkipReason]]:
    """Every file, its size, and why it is left out. Reading also brings the files into the page cache, so that no
    program is the first to read them from the disk."""
    source = FolderSource(str(root), with_ignored=True)
    entries = source.entries()
    wanted = [entry for entry in entries if reason_before_reading(entry, policy) is SkipReason.NONE]
    for entry in entries:
        if (reason := reason_before_reading(entry, policy)) is not SkipReason.NONE:
            yield entry, 0, reason
    for entry, content in zip(wanted, source.read(wanted), strict=True):
        if isinstance(content, bytes):
            yield entry, len(content), _reason(entry, content, policy)
        else:
            yield entry, 0, content


def _reason(entry: Entry, content: bytes, policy: Policy) -> SkipReason:
    reason = reason_to_skip(entry, content, policy)
    limit = policy.trigram_limit(entry)
    if reason is SkipReason.NONE and limit and distinct_keys(np.frombuffer(content, np.uint8), CLASSES) > limit:
        return SkipReason.TOO_MANY_TRIGRAMS
    return reason


def _link(file: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, target)
    except OSError:  # another file system, or a file of another user
        shutil.copyfile(file, target)
