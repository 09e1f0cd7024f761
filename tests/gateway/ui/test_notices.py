"""An incomplete result has notices (GW-1)."""

import pytest

from argosy.gateway.ui.results import NAMES_MAX, Tone, missing_notices, notices
from argosy.search.model import Chunk, FileMatch, LimitHit, Location, Missing, MissingReason, SearchResult


def test_a_complete_answer_needs_no_notice() -> None:
    assert notices(SearchResult()) == ()


@pytest.mark.parametrize("why", list(MissingReason))
def test_a_missing_repository_is_named_with_its_reason(why: MissingReason) -> None:
    [notice] = notices(SearchResult(missing=(Missing("r", why, "https://user:hidden@host is away"),)))
    assert notice.tone is Tone.WARNING
    assert notice.text.startswith("1 repository is missing: ")
    assert notice.named[0].repository == "r"
    assert "hidden" not in notice.named[0].detail


def test_there_is_one_notice_per_reason_and_many_names_are_counted() -> None:
    many = [Missing(f"w{number:03}", MissingReason.WARMING) for number in range(NAMES_MAX + 7)]
    found = missing_notices([*many, Missing("f", MissingReason.FAILED)])
    assert [len(notice.named) for notice in found] == [NAMES_MAX, 1]
    assert found[0].unnamed == 7


# Files and matches that are not shown are shown elsewhere: a link for more, and a count beside the file.
@pytest.mark.parametrize("limits_hit", sorted(set(LimitHit) - {LimitHit.FILES_SHOWN, LimitHit.MATCHES_SHOWN}, key=str))
def test_a_limit_that_truncated_the_result_has_a_notice(limits_hit: LimitHit) -> None:
    [notice] = notices(SearchResult(limits_hit=(limits_hit,)))
    assert notice.tone is Tone.WARNING


def test_clipped_lines_have_a_notice() -> None:
    chunk = Chunk(b"x", Location(0, 1, 1), (), is_clipped=True)
    [notice] = notices(SearchResult(files=(FileMatch("r", "p", chunks=(chunk, chunk)),)))
    assert notice.text.startswith("2 very long lines")
    assert notice.tone is Tone.NOTE
