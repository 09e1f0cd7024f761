"""Whether everybody finds the same files: a fast answer that leaves something out is no answer."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from argosy.bench.search.bench_query import Ask
from argosy.bench.search.engine import Engine
from argosy.bench.search.peers import Peer

EXAMPLES = 3


@dataclass(frozen=True)
class Difference:
    """A question to which a peer found other files than we did."""

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
    """What was compared, and what was not the same."""

    compared: dict[str, int]  # questions, by peer
    differences: Sequence[Difference]

    def of(self, peer: str) -> list[Difference]:
        return [each for each in self.differences if each.peer == peer]

    def as_json(self) -> dict[str, Any]:
        return {"compared": self.compared, "differences": [asdict(each) for each in self.differences]}


def compared(engine: Engine, peers: Sequence[Peer], asks: Iterable[Ask]) -> Agreement:
    counts: dict[str, int] = {}
    differences: list[Difference] = []
    for ask in asks:
        ours = engine.files(ask)
        for peer in peers:
            theirs = peer.files(ask)
            if theirs is None:
                continue
            counts[peer.name] = counts.get(peer.name, 0) + 1
            if theirs != ours:
                differences.append(_difference(peer.name, ask, ours, theirs))
    return Agreement(counts, differences)


def _difference(peer: str, ask: Ask, ours: frozenset[str], theirs: frozenset[str]) -> Difference:
    only_ours, only_theirs = (
        tuple(printable(name) for name in sorted(names)[:EXAMPLES]) for names in (ours - theirs, theirs - ours)
    )
    return Difference(peer, ask.text, len(ours), len(theirs), only_ours, only_theirs)


def printable(name: str) -> str:
    """A file's name, whatever is in it, as one word of a line."""
    return name if name.isprintable() else ascii(name)
