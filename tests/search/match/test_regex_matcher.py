"""Regular expressions without RE2 on every document: required text, candidate lines, whole documents."""

import numpy as np
import pytest

from argosy.search.index.index import Segment
from argosy.search.match.expression import Expression
from argosy.search.match.limits import Budget
from argosy.search.match.regex_matcher import RegexCandidates, RegexMatcher
from argosy.search.match.required_text import RequiredText
from tests.search.match.search_calls import CountingFlag, array, cancelled_by, data_of, segment_of, unbounded

FILLER = b"".join(b"line %d of nothing much\n" % i for i in range(400))


def matcher(pattern: str) -> RegexMatcher:
    return RegexMatcher(Expression(pattern, is_case_sensitive=True))


def found(pattern: str, text: bytes, budget: Budget | None = None) -> list[bytes]:
    segment = segment_of({"a.txt": text})
    it = matcher(pattern)
    mask = np.ones(segment.content.documents, np.bool_)
    spans = it.find(segment, it.candidates(segment), mask, budget or unbounded())
    return [text[start:end] for start, end in zip(spans.starts.tolist(), spans.ends.tolist(), strict=True)]


def candidates(pattern: str, segment: Segment) -> RegexCandidates:
    return matcher(pattern).candidates(segment)


def holds(required: RequiredText | None, text: bytes) -> bool:
    assert required is not None
    return len(required.find(data_of(text + b"\0"), array(0), array(len(text)), unbounded())) > 0


def test_the_anchor_is_what_is_rarest_in_the_segment() -> None:
    common_foo = segment_of({"a.txt": b"foo\n" * 5000 + b"barbar foo\n"})
    common_bar = segment_of({"a.txt": b"barbar\n" * 5000 + b"barbar foo\n"})
    assert holds(candidates("barbar.*foo", common_foo).required, b"barbar")
    assert holds(candidates("barbar.*foo", common_bar).required, b"foo")


def test_only_blocks_with_everything_are_candidates_of_a_match_on_one_line() -> None:
    text = b"foo alone\n" + FILLER + b"foo and bar\n" + FILLER + b"bar alone\n"
    segment = segment_of({"a.txt": text})
    assert len(candidates("foo.*bar", segment).blocks) == 1
    assert segment.content.blocks > 3
    assert found("foo.*bar", text) == [b"foo and bar"]


def test_a_document_without_one_of_the_anchors_is_none() -> None:
    segment = segment_of({"a.txt": b"foo\n", "b.txt": b"bar\n", "c.txt": b"foo\nbar\n"})
    blocks = candidates(r"foo\s+bar", segment).blocks
    assert [segment.path(int(owner)) for owner in segment.content.block_docs[blocks]] == [b"c.txt"]


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (r"int\s+main", b"int\n\n  \n\t\nmain", [b"int\n\n  \n\t\nmain"]),
        (r"int\s+main", b"int\nx\nmain", []),
        (r"int\s+main\s*\(", b"int\n\n\nmain\n\n(", [b"int\n\n\nmain\n\n("]),
        (r"\s+return", b"a\n\n    return b\n    return c", [b"\n\n    return", b"\n    return"]),
        (r"\s+X", b"    X\n    X\n\tY\n\nX", [b"    X", b"\n    X", b"\n\nX"]),
        (r"\{\n\s*\n\}", b"{\n\n}\n{\n x\n}\n{\n \n}", [b"{\n\n}", b"{\n \n}"]),
        (r"a\nb\nc", b"a\nb\nc\na\nb\nc", [b"a\nb\nc", b"a\nb\nc"]),
        ("(?s)foo.*bar", b"foo\n1\n2\nbar\nbar\n", [b"foo\n1\n2\nbar\nbar"]),
        (r"\Afoo", b"foo\nfoo", [b"foo"]),
        (r"foo\z", b"foo\nfoo", [b"foo"]),
        (r"foo\n\z", b"foo\nfoo\n", [b"foo\n"]),
        (r"[^x]+", b"ab\ncd", [b"ab\ncd"]),
        ("foo.*", b"foo\r\nbar", [b"foo\r"]),
        ("x*", b"axxb\n", [b"xx"]),
        ("zzz.*q", b"nothing of the kind", []),
        ("a|b.*", b"", []),
    ],
)
def test_what_is_found_is_what_re2_would_find(pattern: str, text: bytes, expected: list[bytes]) -> None:
    assert found(pattern, text) == expected


@pytest.mark.parametrize("pattern", [r"foo\s+bar", r"foo.*bar", r"foo(\n|.)bar", r"(?s)foo.*bar"])
def test_matches_are_found_far_into_a_text_and_over_the_seams_of_blocks(pattern: str) -> None:
    gap = b" " if "s+" not in pattern else b"\n" * 5000
    text = FILLER + b"foo" + gap + b"bar\n" + FILLER
    assert found(pattern, text) == [b"foo" + gap + b"bar"]


def test_a_document_that_is_no_utf_8_is_matched_byte_by_byte() -> None:
    assert found("a.c", b"a\xffc \xc3\xa4") == [b"a\xffc"]
    assert found("^.$", "ä\n".encode() + b"\xff\n") == [b"\xff"]
    assert found("^.$", "ä\n".encode()) == ["ä".encode()]


def test_a_long_line_is_a_line_all_the_same() -> None:
    text = b"foo" + b"-" * 20_000 + b"bar\nfoo\nbar"
    assert found("foo.*bar", text) == [text[:20_006]]
    assert found("^.*bar$", text) == [text[:20_006], b"bar"]


def test_everything_is_a_candidate_of_a_pattern_that_requires_nothing() -> None:
    segment = segment_of({"a.txt": FILLER, "b.txt": b"b"})
    assert len(candidates("[a-z]", segment).blocks) == segment.content.blocks
    assert candidates("[a-z]", segment).required is None


def test_a_raised_flag_ends_the_work_at_the_next_check() -> None:
    text = b"ab\n" * 100_000
    everything = CountingFlag()
    assert len(found("[a-b]+", text, cancelled_by(everything))) == 100_000
    assert everything.seen > 10
    for at in range(1, everything.seen + 1, 7):
        flag = CountingFlag(at)
        some = found("[a-b]+", text, cancelled_by(flag))
        assert len(some) < 100_000
        assert flag.seen == at  # once spent, the flag is not read again
