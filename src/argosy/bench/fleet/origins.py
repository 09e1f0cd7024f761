"""The repositories a fleet is given: a corpus in parts, many small ones, and one large one."""

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

from argosy.bench.search.corpus import own_environment, set_out
from argosy.search.skip_policy import Policy

SEED = 5_000
PARTS = 20
CORPUS_BYTES = 150_000_000
SAMPLE_FILES = 1_500
SAMPLE_FILE_BYTES = 1 << 17
COMMON_SHARE = 0.1  # of the files hold it: no identifier that a person would ask for
WORD = re.compile(rb"[A-Za-z_][A-Za-z0-9_]{5,30}")
PLACES = ("site-packages", "dist-packages")
GITS = 4  # at a time


@dataclass(frozen=True)
class Parts:
    """A corpus in parts, one folder each below `folder`."""

    folder: Path
    names: Sequence[str]
    text_bytes: int


def parts(folder: Path, *, bytes_max: int = CORPUS_BYTES, count: int = PARTS) -> Parts:
    """This environment's library and packages, in parts of about one size; what is too much is left out."""
    whole = folder.with_name(folder.name + "-whole")
    set_out("this environment", own_environment(), whole, Policy())
    pieces = list(_pieces(whole, bytes_max // count))
    Random(SEED).shuffle(pieces)
    sizes = dict.fromkeys((f"part-{number:02}" for number in range(count)), 0)
    for piece, size in pieces:
        if sum(sizes.values()) + size > bytes_max:
            continue
        name = min(sizes, key=lambda each: sizes[each])
        place = folder / name / piece.relative_to(whole)
        place.parent.mkdir(parents=True, exist_ok=True)
        os.rename(piece, place)
        sizes[name] += size
    shutil.rmtree(whole)
    names = [name for name in sizes if sizes[name]]
    return Parts(folder, names, sum(sizes.values()))


def _pieces(folder: Path, bytes_max: int) -> Iterator[tuple[Path, int]]:
    """Files and folders that are moved as one, with their sizes: packages, unless they are too large for a part."""
    for piece in sorted(folder.iterdir()):
        size = _size(piece)
        is_place = piece.name in PLACES or folder.name.endswith("-whole")
        if piece.is_dir() and (is_place or size > bytes_max):
            yield from _pieces(piece, bytes_max)
        else:
            yield piece, size


def _size(piece: Path) -> int:
    if piece.is_file():
        return piece.stat().st_size
    return sum((Path(where) / name).stat().st_size for where, _, names in os.walk(piece) for name in names)


def identifiers(folder: Path, count: int) -> list[str]:
    """Identifiers of the text below the folder, the rare and the frequent mixed as they come in a sample of it."""
    random = Random(SEED)
    files = sorted(Path(where) / name for where, _, names in os.walk(folder) for name in names)
    sample = random.sample(files, min(SAMPLE_FILES, len(files)))
    found = Counter(word for file in sample for word in set(WORD.findall(_beginning(file))))
    words = sorted(word.decode() for word, files_with in found.items() if files_with <= COMMON_SHARE * len(sample))
    return random.sample(words, min(count, len(words)))


def _beginning(file: Path) -> bytes:
    with file.open("rb") as stream:
        return stream.read(SAMPLE_FILE_BYTES)


def small_repositories(folder: Path, count: int) -> list[dict[str, object]]:
    """So many git repositories with a few files each, as wishes for `repo import`."""

    def made(number: int) -> dict[str, object]:
        path = folder / f"ship-{number:03}.git"
        _committed(path, _stream({name: text.encode() for name, text in _files(number).items()}))
        return {"url": str(path), "name": path.stem}

    with ThreadPoolExecutor(GITS) as pool:
        return list(pool.map(made, range(count)))


def _files(number: int) -> dict[str, str]:
    body = "".join(f"    if wind > {step}:\n        return anchor_{number} + {step}\n" for step in range(40))
    return {
        "README.md": f"# Ship {number}\n\nbosun, keel and anchor\n",
        "src/ship.py": f"def moor_{number}(wind):\n{body}\nhome = 'harbour-{number:03}'\n",
        "src/crew.go": f'package crew\n\nfunc Bosun{number % 3}() string {{ return "keel" }}\n',
        "log/day.txt": "calm sea\n" * (number % 50) + f"storm at {number}\nanchor lost\n",
    }


def git_repository(path: Path, tree: Path) -> None:
    """The files below `tree`, committed."""
    files = sorted(Path(where) / name for where, _, names in os.walk(tree) for name in names)
    _committed(path, _stream({str(file.relative_to(tree)): file.read_bytes() for file in files}))


def _stream(files: dict[str, bytes]) -> bytes:
    """One commit, as `git fast-import` reads it."""
    head = b"commit refs/heads/main\ncommitter bench <bench@localhost> 1700000000 +0000\ndata 5\nfirst\n"
    return head + b"".join(
        b'M 100644 inline "%s"\ndata %d\n%s\n' % (_quoted(name), len(data), data) for name, data in files.items()
    )


def _quoted(name: str) -> bytes:
    return os.fsencode(name).replace(b"\\", b"\\\\").replace(b'"', b'\\"')


def _committed(path: Path, stream: bytes) -> None:
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", str(path)], check=True)
    subprocess.run(["git", "fast-import", "--quiet"], cwd=path, input=stream, check=True)
