"""RE2 for queries (`Pattern`) and for our own patterns (`Scanner`): linear time whatever the pattern, outside the GIL.

Assertions see the whole buffer, not just the searched range, so a range may begin and end anywhere between two
characters. How RE2 is called is in `binding.py`.
"""

from functools import lru_cache

from argosy.base.errors import Invalid
from argosy.search.regex.binding import NOWHERE, Buffer, Program, Span, compile_program, latin1, new_options

PATTERN_BYTES_MAX = 32 << 10  # a query has at most 10,000 characters
# RE2's own default.
PROGRAM_BYTES_MAX = 8 << 20  # of one compiled program with its caches; RE2 refuses a pattern that needs more
SHOWN_CHARACTERS = 80  # of a pattern, or of what RE2 says about it, in an error
MATCHES_MAX = 1 << 31  # more than a segment has bytes

_REMEDIES = {  # by the beginning of RE2's message
    "invalid perl operator": "look-around, back-references and comments are not supported",
    "invalid repetition size": "repeat at most 1000 times, nested repetitions multiplied",
    "bad repetition operator": "put the repeated part in parentheses",
    "invalid escape sequence": r"write \\ for a backslash; back-references are not supported",
    "pattern too large": "use smaller repetitions or fewer alternatives",
}


class RegexError(Invalid):
    """RE2 refuses the pattern."""


class Pattern:
    """A compiled pattern: `^` and `$` are line anchors, `.` does not match a newline, there are no captures.

    Valid UTF-8 is matched by characters. For other text there is a second program, compiled when first needed, in which
    every byte of text and pattern is a character (Latin-1): so a source file in another encoding is found rather than
    ignored (decision 0013). A pattern with a character beyond Latin-1, such as `\\x{436}`, has no such program and
    matches no such text.
    """

    __slots__ = ("_by_bytes", "_by_chars", "is_case_sensitive", "source")

    def __init__(self, source: str, *, is_case_sensitive: bool) -> None:
        self.source = source
        self.is_case_sensitive = is_case_sensitive
        self._by_chars = _program(source, is_case_sensitive=is_case_sensitive, is_latin1=False)
        if self._by_chars.error:
            raise RegexError(_error_text(source, self._by_chars.error))
        self._by_bytes: Program | None = None

    @classmethod
    def compile(cls, source: str, *, is_case_sensitive: bool = True) -> "Pattern":
        """Compiles the pattern; raises RegexError if RE2 rejects it."""
        return cls(source, is_case_sensitive=is_case_sensitive)

    def find_all(
        self,
        text: Buffer,
        start: int = 0,
        end: int | None = None,
        limit: int = MATCHES_MAX,
        *,
        is_utf8: bool = True,
        with_empty: bool = False,
    ) -> list[Span]:
        """The first `limit` successive leftmost matches that lie in text[start:end], none overlapping another.

        Empty matches are left out, unless `with_empty`; then only those at the end of another match are. Without them,
        a result shorter than `limit` is complete. A pattern that can match empty text takes a step per character, and
        one such as `(?s)a.*b|a` reads the rest of the range per match: bound the range, or the limit.
        """
        end = _check_end(text, start, end)
        program = self._by_chars if is_utf8 else self._bytes_program()
        spans: list[Span] = []
        # A pattern with a character beyond Latin-1 matches no such text, and that is no error.
        if program.error:
            return spans
        if not program.takes_buffers:
            text = bytes(text)
        # Bound to local names, because this loop runs once per match.
        found = program.match
        keep = spans.append
        last = -1  # where the last match ended
        while len(spans) < limit:
            span = found(text, start, end)[0]
            begin, stop = span
            if stop > begin:
                keep(span)
                start = last = stop
                continue
            if begin < 0:
                break
            # As in Go, no empty match follows directly on another match.
            if with_empty and begin != last:
                keep(span)
            if begin >= end:
                break
            # A whole character, because RE2 would otherwise match the rest of it as invalid bytes.
            start = begin + (_char_length(text, begin, end) if is_utf8 else 1)
        return spans

    def matches(self, text: Buffer, start: int = 0, end: int | None = None, *, is_utf8: bool = True) -> bool:
        """Whether there is a match in text[start:end]; an empty one counts."""
        end = _check_end(text, start, end)
        program = self._by_chars if is_utf8 else self._bytes_program()
        return not program.error and program.match(text, start, end)[0][0] >= 0

    def _bytes_program(self) -> Program:
        # Two threads may compile it at once; both programs are equal, and one is dropped.
        if self._by_bytes is None:
            self._by_bytes = _program(self.source, is_case_sensitive=self.is_case_sensitive, is_latin1=True)
        return self._by_bytes

    def __repr__(self) -> str:
        return f"Pattern({self.source!r}, is_case_sensitive={self.is_case_sensitive})"


def _program(source: str, *, is_case_sensitive: bool, is_latin1: bool) -> Program:
    try:
        written = source.encode()
    except UnicodeEncodeError as error:
        raise RegexError(f"the pattern {_truncate(source)!r} is not valid UTF-8; write \\xHH instead") from error
    if len(written) > PATTERN_BYTES_MAX:
        raise RegexError(f"pattern too long: {len(written)} bytes; use at most {PATTERN_BYTES_MAX}")
    options = new_options()
    options.case_sensitive = is_case_sensitive
    # Without captures RE2 can use its DFA alone.
    options.never_capture = True
    options.max_mem = PROGRAM_BYTES_MAX
    if is_latin1:
        options.encoding = latin1()
    # `^` and `$` are line anchors, as in zoekt.
    return compile_program(b"(?m)" + written, options)


def _error_text(source: str, error: str) -> str:
    """RE2's message without the prefix that was added to the pattern, and the fix."""
    message = error.replace("(?m)", "", 1)
    what = f"invalid regular expression {_truncate(source)!r}"
    return f"{what}: {_truncate(message)}; {_remedy(message)}"


def _truncate(text: str) -> str:
    """RE2 quotes the part of the pattern that it cannot parse, which can be all of it."""
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"


def _remedy(message: str) -> str:
    for beginning, remedy in _REMEDIES.items():
        if message.startswith(beginning):
            return remedy
    return "escape literal characters with a backslash"


def _check_end(text: Buffer, start: int, end: int | None) -> int:
    """The end of the range.

    The binding checks neither that the buffer is contiguous nor that the range is inside it.
    """
    if not isinstance(text, bytes):
        view = memoryview(text)
        assert view.c_contiguous, view.strides
        assert view.itemsize == 1, view.format
    # Assertions, because a wrong range would make RE2 read foreign memory.
    size = len(text)
    end = size if end is None else end
    assert 0 <= start <= end <= size, (start, end, size)
    return end


def _char_length(text: Buffer, at: int, end: int) -> int:
    """The number of bytes of the UTF-8 character at `at`, none past `end`."""
    following = at + 1
    while following < end and text[following] & 0xC0 == 0x80:
        following += 1
    return following - at


PATTERN_MEMORY_BYTES = 64 << 20  # for the automaton of one pattern; RE2's default of 8 MiB is too little for 256 globs
PATTERNS_CACHED_MAX = 128  # the same globs are compiled for every repository


class Scanner:
    """One pattern, in which `^` and `$` are line anchors.

    `next(text, start, end)` returns the spans of the first match in the range: its own, then its groups'. Without a
    match its own span begins at NOWHERE.
    """

    __slots__ = ("next",)

    def __init__(self, source: bytes) -> None:
        self.next = _scanner_program(source).match

    def is_in(self, text: Buffer) -> bool:
        """Whether it matches anywhere."""
        return self.next(text, 0, len(text))[0][0] != NOWHERE


@lru_cache(maxsize=PATTERNS_CACHED_MAX)
def _scanner_program(source: bytes) -> Program:
    options = new_options()
    options.encoding = latin1()
    options.max_mem = PATTERN_MEMORY_BYTES
    program = compile_program(b"(?m)" + source, options)
    if program.error:
        raise Invalid(f"cannot compile the pattern {source[:80]!r}: {program.error[:80]}; use fewer or simpler globs")
    return program
