r"""Patterns that are a few texts: leftmost first, with their edges and odd letters."""

import numpy as np
import pytest

from argosy.search.match.expression import Expression
from argosy.search.match.matchers import AlternationMatcher
from argosy.search.match.regex_matcher import RegexMatcher
from tests.search.match.search_calls import segment_of, unbounded

TEXTS = [
    b"foo food foo_bar foo\nfoo",
    b"todo fixme FIXME todofixme",
    b"aab abab aaab",
    b"#include <a>\n #include <b>\n#include",
    b"",
    "\u212aelvin kelvin ma\u017fs MASS mass".encode(),
    b"foo\xff foo\r\nfoo",
    b"foo " * 3000,
]


@pytest.mark.parametrize("is_exact", [True, False])
@pytest.mark.parametrize(
    "pattern",
    [
        r"\bfoo\b", "todo|fixme", "fixme|todo", "^#include", "foo$", "^foo$", "a|ab", "ab|a", "aa|ab", "aba", "a?b",
        "kelvin|x", r"mass\b", "foo|food|o", "[a-c]b", "aab?",
    ],
)  # fmt: skip
def test_texts_are_found_where_re2_finds_the_pattern(pattern: str, is_exact: bool) -> None:
    segment = segment_of({f"{i}.txt": text for i, text in enumerate(TEXTS)})
    expression = Expression(pattern, is_case_sensitive=is_exact)
    assert expression.literal_set is not None
    mask = np.ones(len(TEXTS), np.bool_)
    quick, plain = AlternationMatcher(expression.literal_set, expression), RegexMatcher(expression)
    found = quick.find(segment, quick.candidates(segment), mask, unbounded())
    expected = plain.find(segment, plain.candidates(segment), mask, unbounded())
    assert found.starts.tolist() == expected.starts.tolist()
    assert found.ends.tolist() == expected.ends.tolist()
    assert found.documents.tolist() == expected.documents.tolist()
    assert len(found) > 0


def test_documents_outside_the_mask_are_not_searched() -> None:
    segment = segment_of({"a.txt": b"foo", "b.txt": b"foo"})
    expression = Expression(r"\bfoo\b", is_case_sensitive=True)
    assert expression.literal_set is not None
    matcher = AlternationMatcher(expression.literal_set, expression)
    spans = matcher.find(segment, matcher.candidates(segment), np.array([False, True]), unbounded())
    assert spans.documents.tolist() == [1]
