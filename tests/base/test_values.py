"""The kinds of value: parsed from text, checked against limits, described for people."""

from typing import Any, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.base.settings import setting_type


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (int, "7", 7),
        (int, " 1_000 ", 1000),
        (int, "-3", -3),
        (float, "2.5", 2.5),
        (float, "1e3", 1000.0),
        (bool, "true", True),
        (bool, "Off", False),
        (bool, "1", True),
        (str, " kept as it is ", " kept as it is "),
        (str, "", ""),
        (str | None, "", None),
        (str | None, "x", "x"),
        (int | None, "", None),
        (int | None, "3", 3),
        (float | None, "0.5", 0.5),
        (Optional[int], "4", 4),  # noqa: UP045 - the older spelling is also understood
        (tuple[str, ...], "a, b,,c", ("a", "b", "c")),
        (tuple[str, ...], "", ()),
    ],
)
def test_text_is_parsed_by_kind(annotation: Any, text: str, value: object) -> None:
    kind = setting_type(annotation)
    assert kind.check(kind.parse(text)) == value


@pytest.mark.parametrize(
    ("annotation", "raw", "expected"),
    [
        (int, "seven", "a whole number"),
        (int, 2.5, "a whole number"),
        (int, True, "a whole number"),
        (float, True, "a number"),
        (float, float("nan"), "a number"),
        (float, float("inf"), "a number"),
        (float, "2.5", "a number"),
        (bool, 1, "true or false"),
        (bool, "perhaps", "true or false"),
        (str, 3, "text"),
        (str, None, "text"),
        (tuple[str, ...], "a", "a list of texts"),
        (tuple[str, ...], ["a", 1], "a list of texts"),
    ],
)
def test_a_value_of_another_kind_is_refused(annotation: Any, raw: object, expected: str) -> None:
    with pytest.raises(Invalid, match=f"expected {expected}"):
        setting_type(annotation).check(raw)


def test_both_limits_are_allowed_values() -> None:
    kind = setting_type(int, min=1, max=3)
    assert [kind.check(n) for n in (1, 3)] == [1, 3]
    for outside in (0, 4):
        with pytest.raises(Invalid, match="a whole number, 1 to 3"):
            kind.check(outside)


def test_none_is_exempt_from_limits_and_choices() -> None:
    assert setting_type(int | None, min=1).check(None) is None
    assert setting_type(str | None, choices=("a",)).check(None) is None


def test_choices_hold_for_a_text_and_for_each_of_a_list() -> None:
    assert setting_type(str, choices=("a", "b")).check("b") == "b"
    assert setting_type(tuple[str, ...], choices=("a", "b")).check(["b", "a"]) == ("b", "a")
    for annotation, raw in ((str, "c"), (tuple[str, ...], ["a", "c"])):
        with pytest.raises(Invalid, match="one of a, b"):
            setting_type(annotation, choices=("a", "b")).check(raw)


@pytest.mark.parametrize(
    ("limits", "words"),
    [({"min": 1}, "at least 1"), ({"max": 2}, "at most 2"), ({}, ""), ({"min": 0, "max": 1}, "0 to 1")],
)
def test_limits_are_described_in_words(limits: dict, words: str) -> None:
    assert setting_type(float, **limits).limits() == words


@given(st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans()))
def test_a_formatted_value_is_parsed_back(value: float) -> None:
    kind = setting_type(type(value))
    assert kind.check(kind.parse(kind.format(value))) == value


@pytest.mark.parametrize("annotation", [bytes, list[str], tuple, tuple[int, ...], int | str, dict, int | str | None])
def test_any_other_annotation_is_a_bug(annotation: Any) -> None:
    with pytest.raises(AssertionError, match="a setting is"):
        setting_type(annotation)


def test_limits_on_what_has_no_size_are_a_bug() -> None:
    with pytest.raises(AssertionError, match="only numbers"):
        setting_type(str, min=1)
    with pytest.raises(AssertionError, match="only texts"):
        setting_type(int, choices=("1",))
