"""Syntax colors never change the text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.gateway.ui.highlight import COLORED_CHARACTERS_MAX, color_syntax
from argosy.search.languages.table import LANGUAGES

SAMPLE = '#include <x>\n"""doc\n<a href=\'b\'>&amp;</a>\n/* c */ if (x) { return "s\\n" + 1.5; } // end\n{{ y }}\n'


@given(st.text(max_size=200), st.sampled_from(["Python", "C++", "Markdown", "HTML", "JSON", "Shell", "YAML", "Rust"]))
def test_the_pieces_are_the_text(text: str, language: str) -> None:
    assert "".join(piece for _, piece in color_syntax(text, language)) == text


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_every_language_we_know_can_be_shown(language: str) -> None:
    assert "".join(piece for _, piece in color_syntax(SAMPLE, language)) == SAMPLE


def test_what_is_code_is_coloured_as_such() -> None:
    pieces = color_syntax('def f(x):  # why\n    return "s" + 1\n', "Python")
    assert [piece for piece in pieces if piece[0]] == [
        ("k", "def"),
        ("f", "f"),
        ("c", "# why"),
        ("k", "return"),
        ("s", '"s"'),
        ("n", "1"),
    ]


@pytest.mark.parametrize("language", ["C#", "C++", "Dockerfile", "Go", "Objective-C", "Shell", "TypeScript"])
def test_names_that_lexers_spell_differently_are_understood(language: str) -> None:
    assert len(color_syntax('if x then return "s" 12 func class\n', language)) > 1


def test_an_unknown_language_and_a_long_text_stay_plain() -> None:
    assert list(color_syntax("x = 1", "Klingon")) == [("", "x = 1")]
    assert list(color_syntax("x = 1", "")) == [("", "x = 1")]
    long = "x = 1\n" * (COLORED_CHARACTERS_MAX // 6 + 1)
    assert list(color_syntax(long, "Python")) == [("", long)]
