"""The binding of RE2: the only module that uses private names of google-re2.

The private path goes below the binding's Python surface: `RE2.Match` takes any buffer without a copy and costs about a
microsecond. It uses names that google-re2 may change in any release, so it is exercised once, before the first pattern
is compiled. If it does not behave as expected, one warning is logged and every pattern uses the public API: the same
matches, slower, and a copy of each text that is not `bytes`.
"""

from functools import lru_cache, partial
from typing import Any, Protocol, TypeAlias

import re2

from argosy.base import logs

Buffer: TypeAlias = bytes | bytearray | memoryview | Any  # Any: a numpy array of bytes; there is no type for buffers
Span: TypeAlias = tuple[int, int]

NOWHERE = -1  # start and end of a group that did not take part in the match

log = logs.get("search.regex")


class Program(Protocol):
    """A compiled pattern. `match` returns the spans of the first match in text[start:end] and of its groups."""

    takes_buffers: bool  # otherwise `match` copies a text that is not bytes; copy it once, before a loop
    error: str  # RE2's message if the pattern is invalid, else empty

    def match(self, text: Buffer, start: int, end: int) -> list[Span]: ...


class PrivateProgram:
    """RE2's own object, called without the Python layer in between."""

    __slots__ = ("error", "match")

    takes_buffers = True

    def __init__(self, pattern: bytes, options: Any) -> None:
        compiled = re2._re2.RE2(pattern, options)
        self.error = "" if compiled.ok() else _text(compiled.error())
        # The anchor is bound once, because the call is made per match.
        self.match = partial(compiled.Match, re2._Anchor.UNANCHORED)


class PublicProgram:
    """The public API of google-re2: `compile`, `search` and `span`."""

    __slots__ = ("_compiled", "_groups", "error")

    takes_buffers = False

    def __init__(self, pattern: bytes, options: Any) -> None:
        self.error = ""
        try:
            self._compiled = re2.compile(pattern, options)
        except re2.error as error:
            self.error = _text(error.args[0] if error.args else error) or "invalid pattern"
            return
        self._groups = range(self._compiled.groups + 1)

    def match(self, text: Buffer, start: int, end: int) -> list[Span]:
        # The public API takes only `bytes`.
        found = self._compiled.search(text if isinstance(text, bytes) else bytes(text), start, end)
        if found is None:
            return [(NOWHERE, NOWHERE) for _ in self._groups]
        return [found.span(group) for group in self._groups]


def new_options() -> Any:
    """RE2's options; errors are returned and not printed."""
    options = re2.Options()
    options.log_errors = False
    return options


def latin1() -> Any:
    return re2.Options.Encoding.LATIN1


def compile_program(pattern: bytes, options: Any) -> Program:
    """Compiles the pattern; a program with an `error` must not be used."""
    return program_type()(pattern, options)


@lru_cache(maxsize=1)
def program_type() -> type[PrivateProgram] | type[PublicProgram]:
    """The fast path if it works as expected, decided once."""
    try:
        check_private_path()
    except Exception as error:  # of any type, depending on what has changed
        log.warning("re2 private api changed, using the public one", reason=f"{type(error).__name__}: {error}")
        return PublicProgram
    return PrivateProgram


def check_private_path() -> None:
    """Raises if the private API is not what `PrivateProgram` expects of it."""
    text = b"abb\nbbb\nbbc\nb"
    program = PrivateProgram(b"(?m)^(b+)(c)?$", new_options())
    # Each expectation is something that callers rely on: line anchors, groups without a match, buffers of three types,
    # ranges.
    expected = [
        ((text, 0, 13), [(4, 7), (4, 7), (NOWHERE, NOWHERE)]),
        ((memoryview(text), 5, 13), [(8, 11), (8, 10), (10, 11)]),  # an assertion sees what is before the range
        ((bytearray(text), 9, 11), [(NOWHERE, NOWHERE)] * 3),
    ]
    for arguments, spans in expected:
        if (found := program.match(*arguments)) != spans:
            raise ValueError(f"a match returned {found!r}, expected {spans!r}")
    if program.error or not PrivateProgram(b"(", new_options()).error:
        raise ValueError("errors of patterns are not reported as expected")


def _text(message: object) -> str:
    return message.decode(errors="replace") if isinstance(message, bytes) else str(message)
