"""Random repositories, small and full of coincidences: few letters, so that patterns meet; every kind of odd byte.

Most documents are shorter than a line of prose. Some are several blocks long, and some have a line longer than the
longest that an index keeps whole. Everything is drawn from a `Random`: one that hypothesis made, so that a failure is
shrunk, and whose low answers are therefore the plain ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from argosy.search.index.index import BLOCK_BYTES, LONG_LINE_BYTES
from argosy.search.model import Branch, Repository

LETTERS = ["a", "b", "A", "B", "k", "K", "s", "S", "\u017f", "\u212a", "é", "É", "п", "П", "😀", "ﬀ"]
MARKS = [" ", "\n", "0", "7", "_", "\t", ".", "(", ")", "*", "\\", "\n", "\n\n", "\r\n"]
WORDS = ["ab", "aab", "foo", "Foo", "sk", "п_п", "def foo():\n", "class Ab:\n", "func Bak() {\n", "int ab(int k)\n{"]
TOKENS = [token.encode() for token in LETTERS + MARKS + WORDS]
STRAY = [b"\xff", b"\xc3", b"\xa9", b"\x80", b"\xe2\x84", b"\xf0\x9f"]
NUL = b"\x00"

FOLDERS = ["", "", "a/", "src/ab/", "test/", "vendor/k/", "É/"]
STEMS = ["a", "ab", "B", "foo", "Foo_test", "kelvin", "п", "new\nline", "with blank", ".hidden", "Makefile"]
SUFFIXES = [".py", ".py", ".go", ".c", ".txt", "", ".md"]

BRANCH_NAMES = ["main", "main-2", "dev", "HEAD-not"]
REPOSITORY_NAMES = ["alpha", "team/beta"]
FLAGS = ["archived", "fork", "public"]

FILES_MAX = 12
TOKENS_MAX = 50


@dataclass(frozen=True)
class File:
    path: bytes
    content: bytes
    branches: int


@dataclass(frozen=True)
class Checkout:
    """A repository before anything is indexed: the files of all its branches, no (path, content) twice."""

    repository: Repository
    files: tuple[File, ...]


def is_rare(random: Random, one_in: int) -> bool:
    return random.randrange(one_in) == one_in - 1


def small_text(random: Random) -> bytes:
    tokens = TOKENS + STRAY * 3 if is_rare(random, 4) else TOKENS
    text = b"".join(random.choice(tokens) for _ in range(random.randrange(TOKENS_MAX)))
    return text + NUL + b"foo" if is_rare(random, 12) else text


def large_text(random: Random) -> bytes:
    """Some 10 kB, as many lines or as one; most of it dull, so that a block may lack a trigram that another has."""
    # A generator of its own: thousands of draws by hypothesis would be slow, and would teach nothing when shrunk.
    own = Random(random.randrange(1 << 16))
    text = b"".join(dull_lines(own, TOKENS + STRAY if is_rare(random, 3) else TOKENS))
    if own.randrange(2):
        start, length = own.randrange(BLOCK_BYTES), LONG_LINE_BYTES + own.randrange(BLOCK_BYTES)
        text = text[:start] + text[start : start + length].replace(b"\n", b"x") + text[start + length :]
    return text


def dull_lines(random: Random, tokens: list[bytes]) -> Iterator[bytes]:
    for number in range(random.randrange(150, 400)):
        lively = b"".join(random.choices(tokens, k=random.randrange(12))) if number % 7 == 0 else b""
        yield b"q" * random.randrange(50) + lively + b"w" * random.randrange(15) + b"\n"


def path(random: Random) -> bytes:
    text = random.choice(FOLDERS) + random.choice(STEMS) + random.choice(SUFFIXES)
    return text.encode() + (random.choice(STRAY) if is_rare(random, 10) else b"")


def repository(random: Random, number: int) -> Repository:
    first = random.randrange(len(BRANCH_NAMES))
    names = (BRANCH_NAMES[first:] + BRANCH_NAMES[:first])[: 1 + random.randrange(4)]
    return Repository(
        name=REPOSITORY_NAMES[number],
        id=number + 1,
        branches=tuple(Branch(name, f"{place:040x}") for place, name in enumerate(names, start=1)),
        flags={name: is_rare(random, 2) for name in FLAGS if is_rare(random, 2)},
        metadata={"tier": random.choice(["gold", "ab\n", ""])} if is_rare(random, 2) else {},
        aliases=("first",) if is_rare(random, 2) else (),
    )


def files(random: Random, branches: int, *, has_large: bool) -> tuple[File, ...]:
    """Paths with a content on some branches, and perhaps another one elsewhere."""
    texts = [small_text(random) for _ in range(1 + random.randrange(FILES_MAX))]
    if has_large:
        texts.append(large_text(random))
    drawn = []
    for text in texts:
        drawn.append(File(path(random), text, mask(random, branches)))
        if is_rare(random, 3):
            drawn.append(File(drawn[-1].path, random.choice(texts), mask(random, branches)))
    return without_clashes(drawn)


def mask(random: Random, branches: int) -> int:
    return 1 + random.randrange((1 << branches) - 1) if branches > 1 else 1


def without_clashes(files: list[File]) -> tuple[File, ...]:
    """The first file to claim a path on a branch has it; equal contents of a path are one file on several branches."""
    taken: dict[bytes, int] = {}
    merged: dict[tuple[bytes, bytes], int] = {}
    for file in files:
        free = file.branches & ~taken.get(file.path, 0)
        if free:
            taken[file.path] = taken.get(file.path, 0) | free
            merged[file.path, file.content] = merged.get((file.path, file.content), 0) | free
    return tuple(File(path, content, mask) for (path, content), mask in sorted(merged.items()))


def checkout(random: Random, *, number: int = 0, has_large: bool = False) -> Checkout:
    chosen = repository(random, number)
    return Checkout(chosen, files(random, len(chosen.branches), has_large=has_large or is_rare(random, 8)))


def changed(random: Random, checkout: Checkout) -> Checkout:
    """The same repository some commits later: files gone, on other branches, edited, new, or as they were."""
    branches = len(checkout.repository.branches)
    later = []
    for file in checkout.files:
        fate = random.randrange(6)
        if fate == 5:
            continue
        content = small_text(random) if fate == 4 else file.content
        later.append(File(file.path, content, mask(random, branches) if fate == 3 else file.branches))
    fresh = files(random, branches, has_large=False)[: random.randrange(3)]
    return Checkout(checkout.repository, without_clashes([*later, *fresh]))
