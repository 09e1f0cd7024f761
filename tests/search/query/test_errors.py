"""A syntax error shows the query with a caret at its position."""

from argosy.base.errors import Invalid
from argosy.search.query.lex import SHOWN_CHARACTERS_MAX, QuerySyntaxError


def test_the_caret_stands_under_the_place() -> None:
    error = QuerySyntaxError("'or' has no right operand", text="abc or", position=4)
    assert error.excerpt() == "abc or\n    ^"
    assert str(error) == "'or' has no right operand, at column 5"
    assert isinstance(error, Invalid)


def test_the_caret_can_stand_behind_the_end() -> None:
    assert QuerySyntaxError("more", text="sym:", position=4).excerpt() == "sym:\n    ^"


def test_characters_that_would_move_the_caret_are_shown_as_blanks() -> None:
    error = QuerySyntaxError("no", text="a\tb\n\x1b[31mc\ud800)", position=11)
    assert error.excerpt() == "a b  [31mc )\n" + " " * 11 + "^"


def test_a_long_query_is_shown_only_around_the_error() -> None:
    error = QuerySyntaxError("no", text="x" * 500 + ")" + "y" * 500, position=500)
    line, caret = error.excerpt().split("\n")
    assert len(line) == SHOWN_CHARACTERS_MAX
    assert line[caret.index("^")] == ")"


def test_the_caret_stands_below_its_place_for_letters_of_any_width() -> None:
    assert QuerySyntaxError("no", text="日本 e\u0301 (x", position=6).excerpt().endswith("\n" + " " * 7 + "^")
