"""The order of documents is decided before anything is read."""

import pytest

from argosy.search.documents import Entry
from argosy.search.index.build import rank


def entry(path: str, *, size_bytes: int = 10, branches: int = 1) -> Entry:
    return Entry(path.encode(), b"id", size_bytes, branches)


def is_before(one: Entry, two: Entry) -> bool:
    return rank(one, is_skipped=False) < rank(two, is_skipped=False)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("src/a/rather/long/path/to/a/module.go", "m_test.go"),
        ("src/x_test.go", "vendor/x.go"),
        ("vendor/x.go", "a.pb.go"),
        ("vendor/x.go", "vendor/a_test.go"),
        ("main.go", "server.go"),
        ("a.go", "b.go"),
    ],
)
def test_hand_written_code_comes_first_then_short_paths(better: str, worse: str) -> None:
    assert is_before(entry(better), entry(worse))
    assert not is_before(entry(worse), entry(better))


def test_at_one_path_the_shorter_content_and_the_one_on_more_branches_comes_first() -> None:
    assert is_before(entry("a.go", size_bytes=9), entry("a.go", size_bytes=10))
    assert is_before(entry("a.go", branches=0b110), entry("a.go", branches=0b001))


def test_what_is_skipped_comes_last_whatever_it_is() -> None:
    assert rank(entry("a.go"), is_skipped=True) > rank(entry("node_modules/x/test/bundle.min.js"), is_skipped=False)
