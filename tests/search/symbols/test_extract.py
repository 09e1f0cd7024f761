"""Definitions of any text: order, bounds, parents, and a bounded time."""

import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.search.languages import LANGUAGES
from argosy.search.symbols import KINDS
from argosy.search.symbols.extract import CONTENT_BYTES_MAX, DEFINITIONS_MAX, WINDOW_BYTES, definitions
from argosy.search.symbols.grammars import GRAMMARS
from tests.search.symbols.outlines import outline_of

PIECE_LIST = [
    b"class A {", b"struct b {", b"}", b"{", b"(", b")", b"[", b"]", b"<", b">", b";", b",", b"=", b"=>", b":",
    b"::",
    b"def f(x):\n", b"fn g() ", b"func (r *T) h() ", b"function k(a) ", b"enum E {", b"const (", b"type T ",
    b"typedef ",
    b"#define M(x) \\\n", b"#if A\n", b"#else\n", b"#endif\n", b"#[a]", b"@b(c)", b"impl X for Y ", b"x: int",
    b"a, b",
    b"/*", b"*/", b"//", b"--", b"#", b'"', b"'", b"`", b"${", b'"""', b"'''", b"\\", b"\n", b"\r\n", b"  ", b"\t",
    b"R\"x(", b")x\"", b"r#\"", b"=begin\n", b"=end\n", b"[[", b"]]", b"{-", b"-}", b"\xff\xfe", "é€".encode(),
    b"\x00",
    b"operator", b"interface I ", b"extends ", b"template<", b"# Title\n", b"export ", b"async ", b"return /a'/",
    b"case ",
]  # fmt: skip
PIECES = st.sampled_from(PIECE_LIST)
TEXTS = st.lists(PIECES, max_size=60).map(b"".join)


@given(st.sampled_from(sorted(GRAMMARS)), TEXTS)
@settings(max_examples=600, deadline=None)
def test_definitions_of_any_text_are_ordered_names_with_parents_among_them(language: str, text: bytes) -> None:
    found = definitions(language, text)
    assert [each.start for each in found] == sorted(each.start for each in found)
    for number, each in enumerate(found):
        assert 0 <= each.start < each.start + each.length <= len(text)
        assert each.kind in KINDS
        assert -1 <= each.parent < len(found)
        assert each.parent != number
        assert b"\n" not in text[each.start : each.start + each.length] or b"operator" in text


@given(st.sampled_from(sorted(GRAMMARS)), st.binary(max_size=300))
@settings(max_examples=300, deadline=None)
def test_any_bytes_at_all_are_read(language: str, text: bytes) -> None:
    assert all(each.start + each.length <= len(text) for each in definitions(language, text))


@pytest.mark.parametrize("language", ["Python", "C", "JavaScript", "Go", "Markdown"])
def test_an_empty_file_defines_nothing(language: str) -> None:
    assert definitions(language, b"") == []


def test_a_language_without_a_grammar_defines_nothing() -> None:
    assert definitions("Brainfuck", b"class A {}") == []
    assert definitions("", b"class A {}") == []


def test_a_file_beyond_any_outline_is_not_outlined() -> None:
    text = b"def f(): pass\n".ljust(CONTENT_BYTES_MAX, b"\n")
    assert outline_of("Python", text) == ["function f"]
    assert outline_of("Python", text + b"\n") == []


def test_every_grammar_belongs_to_a_detected_language() -> None:
    assert set(GRAMMARS) <= set(LANGUAGES)


def test_a_definition_across_the_end_of_a_window_is_found_once() -> None:
    line = b"int some_function_%05d(int a, int b) { return a; }\n"
    count = 6 * WINDOW_BYTES // 60
    found = outline_of("C", b"".join(line % number for number in range(count)))
    assert found == [f"function some_function_{number:05d}" for number in range(count)]


def test_one_endless_line_is_read_to_its_end() -> None:
    found = outline_of("JavaScript", b"".join(b"function f%d(){};" % number for number in range(20_000)))
    assert found == [f"function f{number}" for number in range(20_000)]


def test_the_number_of_definitions_is_bounded() -> None:
    assert len(definitions("Shell", b"a(){ :; }\n" * (DEFINITIONS_MAX + 10))) == DEFINITIONS_MAX


@pytest.mark.parametrize(
    ("language", "piece"),
    [
        ("C", b"("), ("C", b"typedef a, "), ("C++", b"a<"), ("C#", b"["), ("Java", b"@a("), ("Rust", b"#["),
        ("Rust", b"impl a "), ("JavaScript", b"'\\"), ("JavaScript", b"=/[ "), ("JavaScript", b"((a=>{"),
        ("Kotlin", b'"${'), ("Swift", b'"\\('), ("Lua", b"function a("), ("Python", b"(\n"), ("Markdown", b"```\n"),
    ],
)  # fmt: skip
def test_a_file_made_to_be_slow_is_not(language: str, piece: bytes) -> None:
    """Each of these would take minutes at a quadratic pace; the limit of the suite is the assertion's teeth."""
    text = piece * (200_000 // len(piece))
    assert len(definitions(language, text)) <= DEFINITIONS_MAX


def test_no_kernel_ever_looks_outside_of_its_arrays() -> None:
    command = [sys.executable, "-m", "tests.search.symbols.strict", "1500"]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    reply = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert reply.returncode == 0, reply.stderr
    assert int(reply.stdout) > 1000
