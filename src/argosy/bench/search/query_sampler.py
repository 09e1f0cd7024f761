"""Questions drawn from a tree that nobody has seen before, and the check that a question belongs to its class.

A class is a share of the files, not a guess at a word: `return` is common in one tree and rare in another. Drawing is
seeded, so that the same tree is always asked the same.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from random import Random

from argosy.bench.search.bench_query import Ask, Kind, Place
from argosy.bench.search.query_sets import known
from argosy.search.index.index import Index
from argosy.search.index.reader import content_of

SEED = 20_000
SAMPLE_FILES = 2_000
SAMPLE_BYTES = 32 << 20
SAMPLE_FILE_BYTES = 1 << 18  # of one file: the beginning will do
TRIES_MAX = 400  # questions looked at for one class
RARE_SHARE = 0.001  # of the files hold it, at most
RARE_FILES = 2  # or so many, in a small tree
COMMON_SHARE = 0.2  # of the files hold it, at least
SHORT_CHARACTERS = 2
WORD = re.compile(rb"[A-Za-z_][A-Za-z0-9_]{5,30}")


def belongs(kind: Kind, files: int, all_files: int) -> bool:
    """Whether a question with so many matching files is one of its class."""
    rare_max = max(RARE_FILES, RARE_SHARE * all_files)
    match kind:
        case "zero":
            return files == 0
        case "rare":
            return 0 < files <= rare_max
        case "identifier":
            return rare_max < files < COMMON_SHARE * all_files
        case "common":
            return files >= COMMON_SHARE * all_files and files > 0
    return files > 0


def chosen(kind: Kind, count: int, sample: "Sample", files_of: Callable[[Ask], int], all_files: int) -> list[Ask]:
    """So many questions of the class, the well-known ones first; fewer if the tree does not have them."""
    offered = islice(chain(known(kind), drawn(kind, sample, Random(f"{SEED} {kind}"))), TRIES_MAX)
    found: list[Ask] = []
    while len(found) < count and (ask := next(offered, None)) is not None:
        if ask not in found and belongs(kind, files_of(ask), all_files):
            found.append(ask)
    return found


@dataclass(frozen=True)
class Sample:
    """Some of a tree's files, and its words by the number of those files that hold them."""

    contents: Sequence[bytes]
    suffixes: Sequence[str]  # the most frequent first
    words: Sequence[str]  # the same

    @property
    def middle(self) -> Sequence[str]:
        """Words that are neither everywhere nor nearly nowhere."""
        return self.words[len(self.words) // 200 : len(self.words) // 4] or self.words


def sampled(index: Index) -> Sample:
    documents = [(part.segment, number) for part in index.parts for number in range(part.segment.content.documents)]
    contents: list[bytes] = []
    left_bytes = SAMPLE_BYTES
    for segment, number in Random(SEED).sample(documents, min(SAMPLE_FILES, len(documents))):
        content = content_of(segment, number)
        if isinstance(content, bytes) and left_bytes > 0:
            contents.append(content[:SAMPLE_FILE_BYTES])
            left_bytes -= len(contents[-1])
    words = Counter(word for content in contents for word in set(WORD.findall(content)))
    names = [name for part in index.parts for name in bytes(part.segment.names.data).split(b"\0")]
    suffixes = Counter(suffix.group().decode() for name in names if (suffix := re.search(rb"\.[a-z]{1,5}$", name)))
    return Sample(
        contents,
        [suffix for suffix, _ in suffixes.most_common(8)],
        [word.decode() for word, _ in sorted(words.items(), key=lambda pair: (-pair[1], pair[0]))],
    )


def drawn(kind: Kind, sample: Sample, random: Random) -> Iterator[Ask]:
    """Questions that may belong to the class, without an end unless the sample has no words."""
    while sample.words:
        match kind:
            case "rare":
                yield Ask(kind, (random.choice(sample.words[len(sample.words) // 2 :]),))
            case "identifier":
                yield Ask(kind, (random.choice(sample.middle),))
            case "common":
                yield Ask(kind, (random.choice(sample.words[: max(10, len(sample.words) // 500)]),))
            case "and":
                yield Ask(kind, tuple(word.lower() for word in _together(sample, random)))
            case "short":
                yield Ask(kind, (_characters(sample, random),))
            case "regex":
                yield Ask(kind, (_pattern(sample, random),), is_regex=True)
            case "filter":
                place = Place(suffix=random.choice(sample.suffixes or [""]))
                yield Ask(kind, (random.choice(sample.middle),), place=place)
            case "zero":
                yield Ask(kind, ("".join(random.sample(sample.words, min(2, len(sample.words)))),))


def _together(sample: Sample, random: Random) -> list[str]:
    """Two or three words of one file."""
    words = sorted(set(WORD.findall(random.choice(sample.contents))))
    return [word.decode() for word in random.sample(words, min(len(words), random.choice((2, 3))))] or ["a", "e"]


def _characters(sample: Sample, random: Random) -> str:
    content = random.choice(sample.contents)
    at = random.randrange(max(1, len(content) - 1))
    found = content[at : at + SHORT_CHARACTERS].decode("ascii", "replace")
    return found if found.isprintable() and found.strip() == found and found else "e"


def _pattern(sample: Sample, random: Random) -> str:
    one, other = random.choice(sample.middle), random.choice(sample.middle)
    forms = (rf"\b{one[:5]}\w+\(", rf"({one}|{other})\w*", rf"^\s*\w+ {one}", rf"{one[:6]}[a-z_]+{one[-2:]}\b")
    return random.choice(forms)
