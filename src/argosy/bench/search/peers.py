"""The peers that are programs: ripgrep, git grep and csearch.

Each is asked as a person who knows it would, for the same files, and told to leave nothing out. In the form "count" all
count matching lines by file. In the form "top" they print lines with context, as many of each file as we show; none of
them can rank, so they print those of all files.
"""

import re
import shlex
import shutil
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias

from argosy.base.errors import ArgosyError, NotFound
from argosy.bench.search.bench_query import CONTEXT_LINES, FILE_LINES_MAX, Ask, Form, is_cased
from argosy.bench.search.programs import Ran, Spent, run


@dataclass(frozen=True)
class Built:
    """What a peer's own index of the corpus cost."""

    spent: Spent
    index_bytes: int
    text_bytes: int | None = None  # what it took in, where it says so


class Peer(Protocol):
    """Somebody who answers questions about the corpus, with so many threads if it `is_threaded`."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def built(self) -> Built | None:
        """None for those who need no index."""
        ...

    @property
    def is_threaded(self) -> bool: ...

    def ask(self, ask: Ask, form: Form, threads: int) -> Spent: ...

    def files(self, ask: Ask) -> frozenset[str] | None:
        """The paths of the files found, or None where it cannot be asked that."""
        ...

    def close(self) -> None: ...


def program(name: str) -> str:
    """Where a program is: beside this interpreter, or on the PATH."""
    found = shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)
    if found is None:
        raise NotFound(f"{name} is neither in this environment nor on PATH")
    return found


# Given the corpus and a folder to put an index in.
Opener: TypeAlias = Callable[[Path, Path], Peer]


def present(openers: Mapping[str, Opener], corpus: Path, scratch: Path) -> tuple[list[Peer], dict[str, str]]:
    """The peers that can be run here, and why the others cannot."""
    found: list[Peer] = []
    absent: dict[str, str] = {}
    for name, opener in openers.items():
        try:
            found.append(opener(corpus, scratch))
        except ArgosyError as error:
            absent[name] = str(error)
    return found, absent


@dataclass
class _Program:
    """What the three have in common: a command for each question, run to its end."""

    corpus: Path
    path: str
    version: str
    built: Built | None = None
    env: Mapping[str, str] = field(default_factory=dict)

    def _run(self, command: Sequence[str], *, keeps_output: bool = False) -> Ran:
        return run(command, cwd=self.corpus, env=self.env, keeps_output=keeps_output)

    def close(self) -> None:
        """Nothing runs between two questions."""


class Ripgrep(_Program):
    name = "rg"
    is_threaded = True
    FLAGS: Mapping[Form, Sequence[str]] = {
        "count": ("-c",),
        "top": ("-n", "-m", str(FILE_LINES_MAX), "-C", str(CONTEXT_LINES)),
    }

    @classmethod
    def open(cls, corpus: Path, scratch: Path) -> "Ripgrep":
        path = program("rg")
        return cls(corpus, path, _first_line([path, "--version"], scratch))

    def ask(self, ask: Ask, form: Form, threads: int) -> Spent:
        return self._run(self.command(ask, self.FLAGS[form], threads)).spent

    def files(self, ask: Ask) -> frozenset[str] | None:
        return _paths(self._run(self.command(ask, ("-l", "--null"), 1), keeps_output=True).output, b"\0")

    def command(self, ask: Ask, flags: Sequence[str], threads: int) -> list[str]:
        """Several words are a pipeline: whoever holds the first is asked for the next."""
        steps = [self._step(ask, word, ("-l", "--null"), threads) for word in ask.words[:-1]]
        steps.append(self._step(ask, ask.words[-1], flags, threads))
        if len(steps) == 1:
            return [*steps[0], "./"]
        first, *others = [shlex.join(step) for step in steps]
        return ["sh", "-c", " | ".join([f"{first} ./", *(f"xargs -0 -r {step} --" for step in others)])]

    def _step(self, ask: Ask, word: str, flags: Sequence[str], threads: int) -> list[str]:
        case = "-s" if is_cased(word) else "-i"
        # RE2's classes are ASCII's; so are ripgrep's then.
        kind = ("--no-unicode",) if ask.is_regex else ("-F",)
        place = ("-g", ask.place.glob) if ask.place else ()
        every = ("--no-config", "--no-ignore", "--hidden", "--with-filename")
        return [self.path, *every, f"-j{threads}", case, *kind, *place, *flags, "-e", word]


class GitGrep(_Program):
    name = "git grep"
    is_threaded = True
    FLAGS: Mapping[Form, Sequence[str]] = {
        "count": ("-c",),
        "top": ("-n", "-m", str(FILE_LINES_MAX), "-C", str(CONTEXT_LINES)),
    }

    @classmethod
    def open(cls, corpus: Path, scratch: Path) -> "GitGrep":
        path = program("git")
        # A repository that happens to lie above the corpus is none of its business.
        env = {"GIT_CEILING_DIRECTORIES": str(corpus.parent), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": ""}
        return cls(corpus, path, _first_line([path, "--version"], scratch), env=env)

    def ask(self, ask: Ask, form: Form, threads: int) -> Spent:
        return self._run(self.command(ask, self.FLAGS[form], threads)).spent

    def files(self, ask: Ask) -> frozenset[str] | None:
        return _paths(self._run(self.command(ask, ("-l", "-z"), 1), keeps_output=True).output, b"\0")

    def command(self, ask: Ask, flags: Sequence[str], threads: int) -> list[str]:
        case = () if any(map(is_cased, ask.words)) else ("-i",)
        words = [part for word in ask.words for part in ("-e", word)]
        all_of = ("--all-match",) if len(ask.words) > 1 else ()
        place = f":(glob){ask.place.glob.lstrip('/')}" if ask.place else "."
        kind = "-P" if ask.is_regex else "-F"
        every = (self.path, "grep", "--no-index", f"--threads={threads}", "--no-color")
        return [*every, *case, kind, *all_of, *flags, *words, "--", place]


class Csearch(_Program):
    name = "csearch"
    is_threaded = False
    FLAGS: Mapping[Form, Sequence[str]] = {"count": ("-c",), "top": ("-n",)}

    @classmethod
    def open(cls, corpus: Path, scratch: Path) -> "Csearch":
        """Its index lies on the disk, of which the system keeps the pages."""
        path, builder = program("csearch"), program("cindex")
        index = scratch / "csearch.index"
        env = {"CSEARCHINDEX": str(index)}
        # It tells what it does on stderr, where others record what went wrong.
        command = ["sh", "-c", f"exec {shlex.join([builder, '-reset', str(corpus)])} 2>&1"]
        ran = run(command, cwd=scratch, env=env, keeps_output=True)
        taken = re.findall(rb"(\d+) data bytes", ran.output)
        built = Built(ran.spent, index.stat().st_size, int(taken[-1]) if taken else None)
        return cls(corpus, path, "it does not say", built, env)

    def ask(self, ask: Ask, form: Form, threads: int) -> Spent:
        """One run for each word: it cannot join them. What that would cost comes on top and is not counted."""
        spent = [self._run(self.command(ask, word, self.FLAGS[form])).spent for word in ask.words]
        return Spent(sum(each.cpu_s for each in spent), sum(each.wall_s for each in spent))

    def files(self, ask: Ask) -> frozenset[str] | None:
        if len(ask.words) > 1:
            return None
        output = self._run(self.command(ask, ask.words[0], ("-l",)), keeps_output=True).output
        return frozenset(path.removeprefix(f"{self.corpus}/") for path in _paths(output, b"\n"))

    def command(self, ask: Ask, word: str, flags: Sequence[str]) -> list[str]:
        case = () if is_cased(word) else ("-i",)
        place = ("-f", self._place(ask.place.regex)) if ask.place else ()
        pattern = word if ask.is_regex else re.escape(word)
        return [self.path, *case, *place, *flags, "--", pattern]

    def _place(self, regex: str) -> str:
        return f"^{re.escape(str(self.corpus))}/{regex[1:]}" if regex.startswith("^") else regex


def _first_line(command: Sequence[str], cwd: Path) -> str:
    return run(command, cwd=cwd, keeps_output=True).output.decode(errors="replace").partition("\n")[0]


def _paths(output: bytes, separator: bytes) -> frozenset[str]:
    names = (name.removeprefix(b"./") for name in output.split(separator) if name)
    return frozenset(name.decode("utf-8", "surrogateescape") for name in names)
