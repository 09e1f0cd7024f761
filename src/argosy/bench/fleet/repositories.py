"""The repositories of the fleet benchmark: a corpus in parts, many small ones, and one large one.

Everything is seeded and made from what is on this machine, so no run needs a network.
"""

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random

from argosy.bench.search.corpus import environment_roots, prepare_corpus
from argosy.search.skip_policy import Policy

SEED = 5_000
PARTS = 20
CORPUS_BYTES = 150_000_000
SAMPLE_FILES = 1_500
SAMPLE_FILE_BYTES = 1 << 17
COMMON_SHARE = 0.1  # of the files: no identifier in more of them is a likely query
WORD = re.compile(rb"[A-Za-z_][A-Za-z0-9_]{5,30}")
PACKAGE_DIRECTORIES = ("site-packages", "dist-packages")
GITS = 4  # concurrent git processes


@dataclass(frozen=True)
class SplitCorpus:
    """A corpus in parts, one directory each below `directory`."""

    directory: Path
    names: Sequence[str]
    text_bytes: int


def split_corpus(directory: Path, *, bytes_max: int = CORPUS_BYTES, count: int = PARTS) -> SplitCorpus:
    """The library and packages of this environment, in parts of about equal size; what exceeds `bytes_max` is left out.

    Each piece goes to the smallest part so far. The order is shuffled, because a large package in last place would make
    its part larger than the others.
    """
    whole = directory.with_name(directory.name + "-whole")
    prepare_corpus("this environment", environment_roots(), whole, Policy())
    pieces = list(_pieces(whole, bytes_max // count))
    Random(SEED).shuffle(pieces)
    sizes = dict.fromkeys((f"part-{number:02}" for number in range(count)), 0)
    for piece, size in pieces:
        if sum(sizes.values()) + size > bytes_max:
            continue
        name = min(sizes, key=lambda each: sizes[each])
        target = directory / name / piece.relative_to(whole)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.rename(piece, target)
        sizes[name] += size
    shutil.rmtree(whole)
    names = [name for name in sizes if sizes[name]]
    return SplitCorpus(directory, names, sum(sizes.values()))


def _pieces(directory: Path, bytes_max: int) -> Iterator[tuple[Path, int]]:
    """Files and directories that stay together, with their sizes: packages, unless they are too large for a part."""
    for piece in sorted(directory.iterdir()):
        size = _size(piece)
        is_container = piece.name in PACKAGE_DIRECTORIES or directory.name.endswith("-whole")
        if piece.is_dir() and (is_container or size > bytes_max):
            yield from _pieces(piece, bytes_max)
        else:
            yield piece, size


def _size(piece: Path) -> int:
    if piece.is_file():
        return piece.stat().st_size
    return sum((Path(where) / name).stat().st_size for where, _, names in os.walk(piece) for name in names)


def sample_identifiers(directory: Path, count: int) -> list[str]:
    """Identifiers of the text below the directory, rare and frequent ones mixed as they are in a sample of its
    files."""
    random = Random(SEED)
    files = sorted(Path(where) / name for where, _, names in os.walk(directory) for name in names)
    sample = random.sample(files, min(SAMPLE_FILES, len(files)))
    found = Counter(word for file in sample for word in set(WORD.findall(_beginning(file))))
    words = sorted(word.decode() for word, files_with in found.items() if files_with <= COMMON_SHARE * len(sample))
    return random.sample(words, min(count, len(words)))


def _beginning(file: Path) -> bytes:
    with file.open("rb") as stream:
        return stream.read(SAMPLE_FILE_BYTES)


def small_repositories(directory: Path, count: int) -> list[dict[str, object]]:
    """Git repositories with a few files each, as specs for `repo import`."""

    def create(number: int) -> dict[str, object]:
        path = directory / f"ship-{number:03}.git"
        _import(path, _encode_commit({name: text.encode() for name, text in _files(number).items()}))
        return {"url": str(path), "name": path.stem}

    with ThreadPoolExecutor(GITS) as pool:
        return list(pool.map(create, range(count)))


def _files(number: int) -> dict[str, str]:
    body = "".join(f"    if wind > {step}:\n        return anchor_{number} + {step}\n" for step in range(40))
    return {
        "README.md": f"# Ship {number}\n\nbosun, keel and anchor\n",
        "src/ship.py": f"def moor_{number}(wind):\n{body}\nhome = 'harbour-{number:03}'\n",
        "src/crew.go": f'package crew\n\nfunc Bosun{number % 3}() string {{ return "keel" }}\n',
        "log/day.txt": "calm sea\n" * (number % 50) + f"storm at {number}\nanchor lost\n",
    }


def create_repository(path: Path, tree: Path) -> None:
    """A bare repository with one commit that has the files below `tree`."""
    files = sorted(Path(where) / name for where, _, names in os.walk(tree) for name in names)
    _import(path, _encode_commit({str(file.relative_to(tree)): file.read_bytes() for file in files}))


def _encode_commit(files: dict[str, bytes]) -> bytes:
    """One commit as `git fast-import` reads it: one process for a whole repository, where `git add` and `git commit`
    would need several and a work tree."""
    head = b"commit refs/heads/main\ncommitter bench <bench@localhost> 1700000000 +0000\ndata 5\nfirst\n"
    return head + b"".join(
        b'M 100644 inline "%s"\ndata %d\n%s\n' % (_quote(name), len(data), data) for name, data in files.items()
    )


def _quote(name: str) -> bytes:
    return os.fsencode(name).replace(b"\\", b"\\\\").replace(b'"', b'\\"')


def _import(path: Path, stream: bytes) -> None:
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", str(path)], check=True)
    subprocess.run(["git", "fast-import", "--quiet"], cwd=path, input=stream, check=True)
