"""The peers of the search benchmark that are programs: ripgrep, git grep and csearch; and the list of all peers.

Each is run as someone who knows it would run it, on the same files and with nothing left out. In the form "count" all
count matching lines by file. In the form "top" they print lines with context, as many of each file as Argosy shows;
none of them ranks, so they print those of all files.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from argosy.bench.search.bench_query import CONTEXT_LINES, FILE_LINES_MAX, BenchQuery, Form, is_case_sensitive
from argosy.bench.search.peers import IndexCost, PeerOpener
from argosy.bench.search.programs import CpuAndWall, ProgramResult, run_program
from bench.peers.zoekt import Zoekt, find_program


@dataclass
class _Program:
    """What the three have in common: one process for each query."""

    corpus: Path
    path: str
    version: str
    index_cost: IndexCost | None = None
    env: Mapping[str, str] = field(default_factory=dict)

    def _run(self, command: Sequence[str], *, keeps_output: bool = False) -> ProgramResult:
        return run_program(command, cwd=self.corpus, env=self.env, keeps_output=keeps_output)

    def close(self) -> None:
        """Nothing runs between two queries."""


class Ripgrep(_Program):
    """ripgrep reads the files for each query; it has no index."""

    name = "rg"
    is_threaded = True
    FLAGS: Mapping[Form, Sequence[str]] = {
        "count": ("-c",),
        "top": ("-n", "-m", str(FILE_LINES_MAX), "-C", str(CONTEXT_LINES)),
    }

    @classmethod
    def open(cls, corpus: Path, scratch: Path) -> "Ripgrep":
        path = find_program("rg")
        return cls(corpus, path, _first_line([path, "--version"], scratch))

    def run_query(self, query: BenchQuery, form: Form, threads: int) -> CpuAndWall:
        return self._run(self.command(query, self.FLAGS[form], threads)).spent

    def matching_files(self, query: BenchQuery) -> frozenset[str] | None:
        return _paths(self._run(self.command(query, ("-l", "--null"), 1), keeps_output=True).output, b"\0")

    def command(self, query: BenchQuery, flags: Sequence[str], threads: int) -> list[str]:
        """Several words are a pipeline: the files with the first word are searched for the next."""
        steps = [self._step(query, word, ("-l", "--null"), threads) for word in query.words[:-1]]
        steps.append(self._step(query, query.words[-1], flags, threads))
        if len(steps) == 1:
            return [*steps[0], "./"]
        first, *others = [shlex.join(step) for step in steps]
        return ["sh", "-c", " | ".join([f"{first} ./", *(f"xargs -0 -r {step} --" for step in others)])]

    def _step(self, query: BenchQuery, word: str, flags: Sequence[str], threads: int) -> list[str]:
        case = "-s" if is_case_sensitive(word) else "-i"
        # RE2's classes are ASCII, and so are ripgrep's without Unicode: both then find the same files.
        kind = ("--no-unicode",) if query.is_regex else ("-F",)
        files = ("-g", query.files.glob) if query.files else ()
        every = ("--no-config", "--no-ignore", "--hidden", "--with-filename")
        return [self.path, *every, f"-j{threads}", case, *kind, *files, *flags, "-e", word]


class GitGrep(_Program):
    """`git grep --no-index`: the corpus is a directory and not a repository."""

    name = "git grep"
    is_threaded = True
    FLAGS: Mapping[Form, Sequence[str]] = {
        "count": ("-c",),
        "top": ("-n", "-m", str(FILE_LINES_MAX), "-C", str(CONTEXT_LINES)),
    }

    @classmethod
    def open(cls, corpus: Path, scratch: Path) -> "GitGrep":
        path = find_program("git")
        # Without a ceiling it would search upwards for a repository and read its configuration and ignore rules.
        env = {"GIT_CEILING_DIRECTORIES": str(corpus.parent), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": ""}
        return cls(corpus, path, _first_line([path, "--version"], scratch), env=env)

    def run_query(self, query: BenchQuery, form: Form, threads: int) -> CpuAndWall:
        return self._run(self.command(query, self.FLAGS[form], threads)).spent

    def matching_files(self, query: BenchQuery) -> frozenset[str] | None:
        return _paths(self._run(self.command(query, ("-l", "-z"), 1), keeps_output=True).output, b"\0")

    def command(self, query: BenchQuery, flags: Sequence[str], threads: int) -> list[str]:
        case = () if any(map(is_case_sensitive, query.words)) else ("-i",)
        words = [part for word in query.words for part in ("-e", word)]
        all_of = ("--all-match",) if len(query.words) > 1 else ()
        files = f":(glob){query.files.glob.lstrip('/')}" if query.files else "."
        kind = "-P" if query.is_regex else "-F"
        every = (self.path, "grep", "--no-index", f"--threads={threads}", "--no-color")
        return [*every, *case, kind, *all_of, *flags, *words, "--", files]


class Csearch(_Program):
    """Russ Cox's codesearch, the first search with a trigram index."""

    name = "csearch"
    is_threaded = False
    FLAGS: Mapping[Form, Sequence[str]] = {"count": ("-c",), "top": ("-n",)}

    @classmethod
    def open(cls, corpus: Path, scratch: Path) -> "Csearch":
        """Its index is a file, read through the page cache."""
        path, builder = find_program("csearch"), find_program("cindex")
        index = scratch / "csearch.index"
        env = {"CSEARCHINDEX": str(index)}
        # It reports progress on stderr, which `run_program` takes for an error.
        command = ["sh", "-c", f"exec {shlex.join([builder, '-reset', str(corpus)])} 2>&1"]
        done = run_program(command, cwd=scratch, env=env, keeps_output=True)
        indexed = re.findall(rb"(\d+) data bytes", done.output)
        index_cost = IndexCost(done.spent, index.stat().st_size, int(indexed[-1]) if indexed else None)
        return cls(corpus, path, "unknown", index_cost, env)

    def run_query(self, query: BenchQuery, form: Form, threads: int) -> CpuAndWall:
        """One run for each word. It cannot intersect them; the cost of doing that elsewhere is not counted, in its
        favour."""
        spent = [self._run(self.command(query, word, self.FLAGS[form])).spent for word in query.words]
        return CpuAndWall(sum(each.cpu_s for each in spent), sum(each.wall_s for each in spent))

    def matching_files(self, query: BenchQuery) -> frozenset[str] | None:
        if len(query.words) > 1:
            return None
        output = self._run(self.command(query, query.words[0], ("-l",)), keeps_output=True).output
        return frozenset(path.removeprefix(f"{self.corpus}/") for path in _paths(output, b"\n"))

    def command(self, query: BenchQuery, word: str, flags: Sequence[str]) -> list[str]:
        case = () if is_case_sensitive(word) else ("-i",)
        files = ("-f", self._path_regex(query.files.regex)) if query.files else ()
        pattern = word if query.is_regex else re.escape(word)
        return [self.path, *case, *files, *flags, "--", pattern]

    def _path_regex(self, regex: str) -> str:
        return f"^{re.escape(str(self.corpus))}/{regex[1:]}" if regex.startswith("^") else regex


def _first_line(command: Sequence[str], cwd: Path) -> str:
    return run_program(command, cwd=cwd, keeps_output=True).output.decode(errors="replace").partition("\n")[0]


def _paths(output: bytes, separator: bytes) -> frozenset[str]:
    names = (name.removeprefix(b"./") for name in output.split(separator) if name)
    return frozenset(name.decode("utf-8", "surrogateescape") for name in names)


PEERS: Mapping[str, PeerOpener] = {
    "csearch": Csearch.open,
    "rg": Ripgrep.open,
    "git grep": GitGrep.open,
    "zoekt": Zoekt.open,
}
