"""Numbers as people read them."""

import pytest

from argosy.gateway.ui.number_format import age_text, count_text, duration_text, size_text, version_text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (150 << 10, "150 KiB"),
        (1023 << 10, "1.0 MiB"),
        (34.56 * (1 << 20), "34.6 MiB"),
        (3 << 60, "3072 PiB"),
    ],
)
def test_a_size_has_three_digits_and_a_unit(size_bytes: float, text: str) -> None:
    assert size_text(size_bytes) == text


def test_a_count_distinguishes_singular_and_plural() -> None:
    assert count_text(1, "match", "matches") == "1 match"
    assert count_text(0, "file") == "0 files"
    assert count_text(1234567) == "1,234,567"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0004, "0.4 ms"), (0.012, "12 ms"), (1.0, "1.0 s"), (9.96, "10 s"), (90, "2 min"), (7e3, "2 h"), (2e5, "2 d")],
)
def test_a_duration_has_one_unit(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_an_age_never_lies_in_the_future() -> None:
    assert age_text(0, 1000.0) == "–"
    assert age_text(1001.0, 1000.0) == "just now"
    assert age_text(400.0, 1000.0) == "10 min ago"


def test_a_commit_is_shown_by_its_beginning() -> None:
    assert version_text("0123456789abcdef") == "0123456789"
