"""Cancelling: the work between two checks of the flag is bounded for any query."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from argosy.search.index.index import BLOCK_BYTES, Index
from argosy.search.match import Budget, expression, regex_matcher
from argosy.search.model import Form, Options
from argosy.search.regex import Pattern
from tests.search.match.search_calls import CountingFlag, build_index, cancelled_by, search_one

DOCUMENT_BYTES = 8_000


@pytest.fixture(scope="module")
def index() -> Index:
    line = b"the quick brown fox jumps over 13 lazy dogs and_then_some;\n"
    return build_index({f"f{i}.py": line * (DOCUMENT_BYTES // len(line)) for i in range(12)})


@contextmanager
def work_between_looks(flag: CountingFlag) -> Iterator[dict[int, int]]:
    """The bytes that RE2 scanned after each check."""
    work: dict[int, int] = {}
    original: Callable[..., Any] = Pattern.find_all

    def counted(self: Pattern, text: Any, start: int = 0, *args: Any, **kwargs: Any) -> Any:
        spans = original(self, text, start, *args, **kwargs)
        end = spans[-1][1] if len(spans) == kwargs.get("limit") else len(text)
        work[flag.seen] = work.get(flag.seen, 0) + end - start
        return spans

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pattern, "find_all", counted)
        yield work


@pytest.mark.parametrize("query", [r"[a-z]+_", r"(?s)fox.*dogs", r"fox\s+jumps", "x*", r"\Athe", "fox|quick|dogs."])
def test_re2_gets_a_bounded_text_between_two_checks_of_the_flag(index: Index, query: str) -> None:
    """On a machine so slow that every step takes long: steps are as short as they get, or a document is."""
    flag, seconds = CountingFlag(), itertools.count()
    with work_between_looks(flag) as work:
        budget = Budget(lambda: float(next(seconds)), is_cancelled=flag)
        search_one(index, query, Options(files_max=1, file_matches_max=1), budget)
    first_step_bytes = 4 * regex_matcher.STEP_BLOCKS_MIN * BLOCK_BYTES
    assert len(work) > 1
    assert max(work.values()) <= max(first_step_bytes, DOCUMENT_BYTES)


@pytest.mark.parametrize("query", ["fox", "o", "[a-z]", r"(?s)fox.*dogs", "x*", "-nowhere", "fox jumps -cat"])
def test_after_cancellation_nothing_more_is_searched(index: Index, query: str) -> None:
    whole = CountingFlag()
    search_one(index, query, Options(files_max=1, file_matches_max=1), cancelled_by(whole))
    for at in {1, 2, whole.seen // 2, whole.seen - 1} - {0}:
        flag = CountingFlag(at)
        answer = search_one(index, query, Options(files_max=1, file_matches_max=1), cancelled_by(flag))
        assert not answer.is_complete
        assert flag.seen == at


def test_a_pattern_that_matches_everywhere_checks_the_flag_often(index: Index) -> None:
    flag = CountingFlag()
    answer = search_one(index, "[a-z]", Options(form=Form.COUNT), cancelled_by(flag))
    assert answer.stats.matches > 3 * expression.STEP_MAX
    assert answer.stats.matches / flag.seen <= expression.STEP_MAX


def test_building_many_file_matches_stops_after_cancellation(index: Index) -> None:
    whole = CountingFlag()
    assert len(search_one(index, "fox", Options(file_matches_max=1), cancelled_by(whole)).files) == 12
    answer = search_one(index, "fox", Options(file_matches_max=1), cancelled_by(CountingFlag(whole.seen - 5)))
    assert len(answer.files) == 12 - 6
