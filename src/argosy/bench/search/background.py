"""What a reader must know to judge the figures: what was searched, by whom, who is missing, and what is not alike."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from argosy.bench.harness import Bench
from argosy.bench.search.corpus import QUICK_BYTES_MIN, Corpus
from argosy.bench.search.engine import OPTIONS
from argosy.bench.search.peers import Peer

NOT_ALIKE = (
    "argosy and zoekt are asked in a process that holds everything; the others start a process for each question and "
    "read files from the system's cache",
    "argosy's figure is the median of back-to-back calls with warm processor caches; after other work the shortest "
    "queries cost more",
    "form count: argosy counts all matches, the others all matching lines; form top: argosy stops looking after "
    f"{OPTIONS['top'].index_match_limit:,} matches and shows the best {OPTIONS['top'].files_max} files, the others "
    "print lines of all files, in no order; csearch prints every line and no context",
    "several words: ripgrep is a pipeline with xargs; csearch is run once for each word and its answers are not "
    "joined; git grep has --all-match",
    "cpu is that of one thread each; wall is with all cores, of which csearch uses one",
)


def record_background(bench: Bench, corpus: Corpus, peers: Sequence[Peer], absent: Mapping[str, str]) -> None:
    """As notes for people, and as details for machines."""
    megabytes = corpus.text_bytes / 1e6
    bench.notes.append(
        f"corpus: {corpus.name}, {corpus.files:,} files, {megabytes:,.0f} MB of text; left out for all: "
        + (", ".join(f"{count:,} {reason}" for reason, count in corpus.left_out.items()) or "nothing")
    )
    if bench.is_quick and corpus.text_bytes < QUICK_BYTES_MIN:
        bench.notes.append(f"that is less than the {QUICK_BYTES_MIN / 1e6:,.0f} MB a quick run should search")
    bench.notes += [f"{name} is absent: {why}" for name, why in absent.items()]
    for peer in peers:
        taken = peer.built.text_bytes if peer.built else None
        if taken is not None and taken < corpus.text_bytes:
            bench.notes.append(f"{peer.name} took in {taken / 1e6:,.0f} MB of it: it drops long lines and odd files")
    bench.notes += NOT_ALIKE
    bench.details["corpus"] = {
        "name": corpus.name,
        "files": corpus.files,
        "text_bytes": corpus.text_bytes,
        "left_out": dict(corpus.left_out),
    }
    bench.details["peers"] = {
        **{peer.name: {"version": peer.version, "built": asdict(peer.built) if peer.built else None} for peer in peers},
        **{name: {"absent": why} for name, why in absent.items()},
    }
