"""RE2 by its private names and by its public API: the same matches, and the public API when a private name changed."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.errors import ArgosyError, Invalid
from argosy.search.regex import Pattern, RegexError, binding, engine
from argosy.search.regex.binding import PrivateProgram, PublicProgram, compile_program, new_options, program_type
from argosy.search.regex.engine import Scanner
from tests.search.regex import patterns

PUBLIC = {"Options": re2.Options, "compile": re2.compile, "error": re2.error}
TEXTS = st.one_of(st.text(patterns.CHARS, max_size=20).map(str.encode), st.binary(max_size=20))


class OtherSignature(re2._re2.RE2):
    def Match(self, text: bytes, *, anchor: Any, start: int, end: int) -> Any:
        return super().Match(anchor, text, start, end)


class OtherSpans(re2._re2.RE2):
    def Match(self, *arguments: Any) -> Any:
        return [(start, end - start) for start, end in super().Match(*arguments)]


class NoBuffers(re2._re2.RE2):
    def Match(self, anchor: Any, text: Any, start: int, end: int) -> Any:
        if not isinstance(text, bytes):
            raise TypeError("a text is bytes")
        return super().Match(anchor, text, start, end)


class SilentErrors(re2._re2.RE2):
    def error(self) -> bytes:
        return b""


def private(engine: type) -> dict[str, Any]:
    return {"_re2": SimpleNamespace(RE2=engine), "_Anchor": re2._Anchor}


CHANGED = {
    "no private module": {"_Anchor": re2._Anchor},
    "no anchors": {"_re2": re2._re2},
    "another signature": private(OtherSignature),
    "other spans": private(OtherSpans),
    "no buffers": private(NoBuffers),
    "silent errors": private(SilentErrors),
}


@pytest.fixture(autouse=True)
def undecided() -> Iterator[None]:
    """The path is decided once in a process: each test decides for itself, and leaves nothing behind."""
    program_type.cache_clear()
    engine._scanner_program.cache_clear()
    yield
    program_type.cache_clear()
    engine._scanner_program.cache_clear()


@contextmanager
def path_of(program: type[PrivateProgram] | type[PublicProgram]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(binding, "program_type", lambda: program)
        engine._scanner_program.cache_clear()
        yield


def by_both(ask: Callable[[], Any]) -> Any:
    """What both paths answer, which is the same."""
    answers = []
    for program in (PrivateProgram, PublicProgram):
        with path_of(program):
            try:
                answers.append(ask())
            except ArgosyError as error:
                answers.append((type(error), str(error)))
    assert answers[0] == answers[1]
    return answers[0]


def test_the_installed_release_is_used_by_its_private_names() -> None:
    assert program_type() is PrivateProgram


@pytest.mark.parametrize("names", CHANGED.values(), ids=CHANGED)
def test_a_changed_private_api_is_reported_once_and_the_public_one_answers(
    names: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(binding, "re2", SimpleNamespace(**PUBLIC, **names))
    text = "one two\nжук two\n".encode()
    with caplog.at_level(logging.WARNING, logger="argosy"):
        assert Pattern.compile(r"^\w+ ").find_all(memoryview(text)) == [(0, 4)]
        assert Pattern.compile("жук", is_case_sensitive=False).find_all(np.frombuffer(text, np.uint8)) == [(8, 14)]
        assert Scanner(rb"(\w) t(w)?").next(text, 0, len(text)) == [(2, 6), (2, 3), (5, 6)]
        with pytest.raises(RegexError, match="missing"):
            Pattern.compile("(")
    assert program_type() is PublicProgram
    assert [str(each.msg).split(" reason")[0] for each in caplog.records] == [
        "re2 private api changed, using the public one"
    ]


@given(patterns.patterns, TEXTS, st.booleans(), st.booleans(), st.data())
def test_both_paths_find_the_same(source: str, text: bytes, is_case_sensitive: bool, is_utf8: bool, data: Any) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))

    def ask() -> Any:
        pattern = Pattern.compile(source, is_case_sensitive=is_case_sensitive)
        found = pattern.find_all(bytearray(text), start, end, is_utf8=is_utf8, with_empty=True)
        return found, pattern.matches(memoryview(text), start, end, is_utf8=is_utf8)

    assert by_both(ask) is not None


@given(st.sampled_from([rb"(a+)(b)?", rb"^(\w+)$|(\d)", rb"(?:(x)|(y))(\xff)?", rb"()"]), st.binary(max_size=20))
def test_both_paths_capture_the_same(source: bytes, text: bytes) -> None:
    assert by_both(lambda: (Scanner(source).next(text, 0, len(text)), Scanner(source).is_in(text))) is not None


@pytest.mark.parametrize(
    "source", ["(", "a**", "(?<=a)", "a{1001}", r"\1", "[b-a]", "(?:" * 1100, "x{999}" * 99, "\x00"]
)
def test_both_paths_reject_the_same_with_the_same_message(source: str) -> None:
    by_both(lambda: Pattern.compile(source).find_all(b"aaa"))
    assert by_both(lambda: compile_program(source.encode(), new_options()).error) is not None


def test_a_pattern_too_large_to_scan_with_is_an_error_of_its_user() -> None:
    refused = by_both(lambda: Scanner(b"(?:[a-z]{999}){999}"))
    assert refused[0] is Invalid
    assert "use fewer or simpler globs" in refused[1]
