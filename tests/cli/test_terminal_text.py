"""Foreign text is printed and its control characters are escaped."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from argosy.cli.output import Paint, safe_name, safe_text

STEERING = {"\u061c", "\u200b", "\u200e", "\u200f", "\u2028", "\u2029", "\ufeff"}
STEERING |= {chr(code) for code in (*range(0x202A, 0x202F), *range(0x2060, 0x2070), *range(0xE0000, 0xE0080))}


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"plain \xc3\xa9 \xe2\x9c\x93", "plain é ✓"),
        (b"tab\tstays", "tab\tstays"),
        (b"\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        (b"bell\x07 back\x08 del\x7f nul\x00", r"bell\x07 back\x08 del\x7f nul\x00"),
        ("c1 \x9b2J".encode(), r"c1 \x9b2J"),
        (b"not text \xff\xfe", r"not text \xff\xfe"),
        (b"half of it \xe2\x9c", r"half of it \xe2\x9c"),
        ("turned \u202e round".encode(), r"turned \u202e round"),
        ("hidden \U000e0041".encode(), r"hidden \U000e0041"),
        ("joined \U0001f469\u200d\U0001f680".encode(), "joined \U0001f469\u200d\U0001f680"),
        (b"C:\\x1b", r"C:\x1b"),
    ],
)
def test_a_line_is_written_out_where_it_would_steer_the_terminal(content: bytes, shown: str) -> None:
    assert safe_text(content) == shown


@pytest.mark.parametrize(
    ("name", "shown"),
    [("a/b.py", "a/b.py"), ("two\nlines", r"two\nlines"), ("a\tb", r"a\tb"), ("\udcff.txt", r"\xff.txt")],
)
def test_a_name_stays_on_its_line(name: str, shown: str) -> None:
    assert safe_name(name) == shown


@given(st.binary(max_size=200))
@example("\x1b\x9b\u202e\u2066".encode())
def test_no_control_characters_remain(content: bytes) -> None:
    for text in (safe_text(content).replace("\t", ""), safe_name(content.decode("utf-8", "surrogateescape"))):
        assert [letter for letter in text if unicodedata.category(letter) in {"Cc", "Cs"} or letter in STEERING] == []


@given(st.text(alphabet=st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), max_size=100))
def test_words_of_all_languages_are_shown_as_they_are(text: str) -> None:
    assert safe_text(text.encode()) == safe_name(text) == text


def test_without_colours_nothing_is_added() -> None:
    paint = Paint(is_on=False)
    assert {paint.path("x"), paint.number("x"), paint.match("x"), paint.aside("x")} == {"x"}
    assert len({Paint(is_on=True).path("x"), Paint(is_on=True).match("x"), "x"}) == 3
