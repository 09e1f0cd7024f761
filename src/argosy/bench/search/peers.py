"""What a peer search program has to implement, which peers are here, and whether all programs find the same files.

A peer that finds other files than Argosy did other work, and its time cannot be compared. So the files are compared
before anything is timed, and differences are reported by name. What is not alike is stated in the notes of every
result.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from argosy.base.errors import ArgosyError
from argosy.bench.harness import Bench
from argosy.bench.search.bench_query import BenchQuery, Form
from argosy.bench.search.corpus import QUICK_BYTES_MIN, Corpus
from argosy.bench.search.engine import OPTIONS, Engine
from argosy.bench.search.programs import CpuAndWall

EXAMPLES = 3  # files named for each side of a difference

NOT_ALIKE = (
    "argosy and zoekt run queries in a process that has everything in memory; the others start a process for each "
    "query and read files from the page cache",
    "argosy's figure is the median of back-to-back calls with warm processor caches; after other work the shortest "
    "queries cost more",
    "form count: argosy counts all matches, the others all matching lines; form top: argosy stops after "
    f"{OPTIONS['top'].index_match_limit:,} matches and shows the best {OPTIONS['top'].files_max} files, the others "
    "print lines of all files, unranked; csearch prints every line and no context",
    "several words: ripgrep is a pipeline with xargs; csearch is run once for each word and its results are not "
    "joined; git grep has --all-match",
    "cpu is that of one thread each; wall is with all cores, of which csearch uses one",
)


@dataclass(frozen=True)
class IndexCost:
    """What a peer's index of the corpus cost."""

    spent: CpuAndWall
    index_bytes: int
    text_bytes: int | None = None  # how much text it indexed, if it says so


class SearchPeer(Protocol):
    """A program that searches the corpus."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def index_cost(self) -> IndexCost | None:
        """None for programs without an index."""
        ...

    @property
    def is_threaded(self) -> bool:
        """Whether it takes a number of threads."""
        ...

    def run_query(self, query: BenchQuery, form: Form, threads: int) -> CpuAndWall: ...

    def matching_files(self, query: BenchQuery) -> frozenset[str] | None:
        """The paths of the files found, or None if it cannot run this query."""
        ...

    def close(self) -> None: ...


# Called with the corpus and a directory for an index.
PeerOpener: TypeAlias = Callable[[Path, Path], SearchPeer]


def open_peers(
    openers: Mapping[str, PeerOpener], corpus: Path, scratch: Path
) -> tuple[list[SearchPeer], dict[str, str]]:
    """The peers that run here, and for each of the others the reason why not."""
    found: list[SearchPeer] = []
    absent: dict[str, str] = {}
    for name, opener in openers.items():
        try:
            found.append(opener(corpus, scratch))
        except ArgosyError as error:
            absent[name] = str(error)
    return found, absent


# -- agreement --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """A query for which a peer found other files than Argosy."""

    peer: str
    query: str
    ours: int
    theirs: int
    only_ours: tuple[str, ...]  # examples
    only_theirs: tuple[str, ...]

    def as_text(self) -> str:
        sides = (("ours", self.only_ours), ("theirs", self.only_theirs))
        examples = "; ".join(f"only {side}: {', '.join(names)}" for side, names in sides if names)
        return f"{self.query}: {self.ours} files, {self.peer} {self.theirs} ({examples})"


@dataclass(frozen=True)
class Agreement:
    """How many queries were compared, and where the files differ."""

    compared: dict[str, int]  # queries, by peer
    differences: Sequence[Difference]

    def of(self, peer: str) -> list[Difference]:
        return [each for each in self.differences if each.peer == peer]

    def as_json(self) -> dict[str, Any]:
        return {"compared": self.compared, "differences": [asdict(each) for each in self.differences]}


def compare_files(engine: Engine, peers: Sequence[SearchPeer], queries: Iterable[BenchQuery]) -> Agreement:
    counts: dict[str, int] = {}
    differences: list[Difference] = []
    for query in queries:
        ours = engine.matching_files(query)
        for peer in peers:
            theirs = peer.matching_files(query)
            if theirs is None:
                continue
            counts[peer.name] = counts.get(peer.name, 0) + 1
            if theirs != ours:
                differences.append(_difference(peer.name, query, ours, theirs))
    return Agreement(counts, differences)


def _difference(peer: str, query: BenchQuery, ours: frozenset[str], theirs: frozenset[str]) -> Difference:
    only_ours, only_theirs = (
        tuple(_printable(name) for name in sorted(names)[:EXAMPLES]) for names in (ours - theirs, theirs - ours)
    )
    return Difference(peer, query.text, len(ours), len(theirs), only_ours, only_theirs)


def _printable(name: str) -> str:
    """A file name, which may contain line breaks, as one word of a line."""
    return name if name.isprintable() else ascii(name)


# -- notes ------------------------------------------------------------------------------------------------------------


def record_background(bench: Bench, corpus: Corpus, peers: Sequence[SearchPeer], absent: Mapping[str, str]) -> None:
    """What a reader must know to judge the figures: what was searched, by which programs, and what is not alike."""
    megabytes = corpus.text_bytes / 1e6
    bench.notes.append(
        f"corpus: {corpus.name}, {corpus.files:,} files, {megabytes:,.0f} MB of text; left out for all: "
        + (", ".join(f"{count:,} {reason}" for reason, count in corpus.left_out.items()) or "nothing")
    )
    if bench.is_quick and corpus.text_bytes < QUICK_BYTES_MIN:
        bench.notes.append(f"that is less than the {QUICK_BYTES_MIN / 1e6:,.0f} MB a quick run should search")
    bench.notes += [f"{name} is absent: {why}" for name, why in absent.items()]
    for peer in peers:
        indexed = peer.index_cost.text_bytes if peer.index_cost else None
        if indexed is not None and indexed < corpus.text_bytes:
            bench.notes.append(f"{peer.name} indexed {indexed / 1e6:,.0f} MB of it: it drops long lines and odd files")
    bench.notes += NOT_ALIKE
    bench.details["corpus"] = {
        "name": corpus.name,
        "files": corpus.files,
        "text_bytes": corpus.text_bytes,
        "left_out": dict(corpus.left_out),
    }
    bench.details["peers"] = {
        **{
            peer.name: {"version": peer.version, "built": asdict(peer.index_cost) if peer.index_cost else None}
            for peer in peers
        },
        **{name: {"absent": why} for name, why in absent.items()},
    }
