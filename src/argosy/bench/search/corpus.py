"""The text that everybody searches.

Our engine leaves out binaries, very large files and tables of numbers; a peer that had to read them would be measured
at other work. So the files that we index are set out in a folder of their own, as links where the file system allows it
and as copies where not, and everybody is given that folder.
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
    """A folder of text, and how it came about."""

    name: str
    folder: Path
    files: int
    text_bytes: int
    left_out: Mapping[str, int]  # files by the reason


def named(path: str) -> dict[str, Path]:
    """The tree a person named."""
    folder = Path(path)
    if not folder.is_dir():
        raise Invalid(f"{path!r} is no folder: name a large tree with --corpus, or leave it out and say --quick")
    return {"": folder.resolve()}


def own_environment() -> dict[str, Path]:
    """The standard library and the packages of this environment: there is always some."""
    paths = sysconfig.get_paths()
    folders = sorted({Path(paths[name]).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")})
    outer = [folder for folder in folders if not any(other in folder.parents for other in folders)]
    return {f"{number}-{folder.name}": folder for number, folder in enumerate(outer)}


def set_out(name: str, roots: Mapping[str, Path], folder: Path, policy: Policy) -> Corpus:
    """Everything below the roots that is indexed with its content, set out in the folder."""
    files = text_bytes = 0
    left_out: Counter[str] = Counter()
    for place, root in roots.items():
        for entry, size_bytes, reason in _judged(root, policy):
            if reason is not SkipReason.NONE:
                left_out[reason.value] += 1
                continue
            _linked(root / os.fsdecode(entry.path), folder / place / os.fsdecode(entry.path))
            files, text_bytes = files + 1, text_bytes + size_bytes
    if not files:
        raise Invalid(f"there is no text in {name!r}: name a tree of source code with --corpus")
    return Corpus(name, folder, files, text_bytes, dict(left_out))


def _judged(root: Path, policy: Policy) -> Iterator[tuple[Entry, int, SkipReason]]:
    """Every file, its size, and why it is left out. Reading it also brings it into the system's cache, for all."""
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


def _linked(file: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, place)
    except OSError:  # another file system, or files of somebody else
        shutil.copyfile(file, place)
