"""The total cost of many regexes is bounded before any of them is compiled."""

import pytest

from argosy.search.query.leaves import STEPS_MAX, steps
from argosy.search.regex import parse_regex


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("", 0),
        ("abc", 3),
        ("a.b", 6),                         # a dot is a class of all but one
        ("[a-z]{1000}", 2_000),
        (r"\w{10}", 30),
        ("[é-ú]", 3),
        (r"(a|\pL){3,20}", 20_040),
        (r"\PN*", 1_002),
        (r"[^\pL[:alpha:]]", 1_004),
        ("a?b+c{2,}$", 5),
        ("(" * 60 + "a" + ")" * 60, 50_000),
    ],
)  # fmt: skip
def test_steps_are_those_of_what_is_written_out(pattern: str, expected: int) -> None:
    assert steps(parse_regex(pattern)) == pytest.approx(expected, rel=0.05, abs=2)


def test_typical_patterns_are_far_below_the_bound() -> None:
    written = [r"^\s*(public|private)\s+(static\s+)?\w+\(", r"\pL+_\pN{1,4}", r"[A-Za-z0-9._%+-]{1,64}@[a-z.]{2,253}"]
    assert sum(steps(parse_regex(pattern)) for pattern in written) < STEPS_MAX / 20
