"""Which contents stay out of an index, and the reasons."""

import pytest

from argosy.base.errors import Invalid
from argosy.search.documents import DOCUMENT_BYTES_MAX, Entry, EntryKind, SkipReason
from argosy.search.skip_policy import (
    BINARY_HEAD_BYTES,
    SIZE_BYTES_MAX,
    TRIGRAMS_MAX,
    Policy,
    is_binary,
    reason_before_reading,
    reason_to_skip,
)

POLICY = Policy()


def entry(path: bytes = b"a.c", size_bytes: int = 10, kind: EntryKind = EntryKind.FILE) -> Entry:
    return Entry(path, b"id", size_bytes, kind=kind)


def test_the_default_limits_are_the_documented_ones() -> None:
    assert (POLICY.size_bytes_max, POLICY.trigrams_max) == (2 << 20, 20_000) == (SIZE_BYTES_MAX, TRIGRAMS_MAX)


@pytest.mark.parametrize("content", [b"", b"a", b"ab", b"int a;\n", "größe".encode(), b"\xff\xfe latin"])
def test_text_is_indexed_however_short(content: bytes) -> None:
    assert reason_to_skip(entry(size_bytes=len(content)), content, POLICY) is SkipReason.NONE


@pytest.mark.parametrize("place", [0, 100, BINARY_HEAD_BYTES - 1, BINARY_HEAD_BYTES, BINARY_HEAD_BYTES + 5000])
def test_a_nul_anywhere_makes_a_file_binary(place: int) -> None:
    content = b"x" * place + b"\0" + b"x" * 10
    assert is_binary(content)
    assert reason_to_skip(entry(size_bytes=len(content)), content, POLICY) is SkipReason.BINARY


def test_a_file_of_exactly_the_limit_is_accepted_and_one_byte_more_is_not() -> None:
    assert reason_before_reading(entry(size_bytes=SIZE_BYTES_MAX), POLICY) is SkipReason.NONE
    assert reason_before_reading(entry(size_bytes=SIZE_BYTES_MAX + 1), POLICY) is SkipReason.TOO_LARGE


def test_size_is_checked_before_content() -> None:
    assert reason_to_skip(entry(size_bytes=SIZE_BYTES_MAX + 1), b"\0", POLICY) is SkipReason.TOO_LARGE


@pytest.mark.parametrize(
    ("kind", "reason"), [(EntryKind.SYMLINK, SkipReason.SYMLINK), (EntryKind.SUBMODULE, SkipReason.SUBMODULE)]
)
def test_links_and_submodules_are_never_read(kind: EntryKind, reason: SkipReason) -> None:
    assert reason_before_reading(entry(kind=kind), POLICY) is reason
    assert reason_to_skip(entry(kind=kind), b"text", POLICY) is reason


def test_a_large_file_that_a_glob_allows_is_accepted() -> None:
    policy = Policy(large_files=("**/*.sql", "!test/**", "test/keep.sql"))
    large = SIZE_BYTES_MAX + 1
    reasons = {
        path: reason_before_reading(entry(path, large), policy)
        for path in (b"dump.sql", b"db/a/dump.sql", b"test/dump.sql", b"test/keep.sql", b"dump.txt")
    }
    assert reasons == {
        b"dump.sql": SkipReason.NONE,
        b"db/a/dump.sql": SkipReason.NONE,
        b"test/dump.sql": SkipReason.TOO_LARGE,
        b"test/keep.sql": SkipReason.NONE,
        b"dump.txt": SkipReason.TOO_LARGE,
    }


def test_no_glob_allows_a_file_that_does_not_fit_a_segment() -> None:
    policy = Policy(large_files=("**",))
    assert reason_before_reading(entry(size_bytes=DOCUMENT_BYTES_MAX), policy) is SkipReason.NONE
    assert reason_before_reading(entry(size_bytes=DOCUMENT_BYTES_MAX + 1), policy) is SkipReason.TOO_LARGE


def test_a_large_file_that_a_glob_allows_must_still_not_be_binary() -> None:
    policy = Policy(large_files=("*.bin",))
    assert reason_to_skip(entry(b"a.bin", SIZE_BYTES_MAX + 1), b"a\0", policy) is SkipReason.BINARY


def test_trigrams_are_counted_only_where_there_may_be_too_many() -> None:
    policy = Policy(large_files=("*.csv",))
    assert policy.trigram_limit(entry(size_bytes=TRIGRAMS_MAX + 2)) == 0
    assert policy.trigram_limit(entry(size_bytes=TRIGRAMS_MAX + 3)) == TRIGRAMS_MAX
    assert policy.trigram_limit(entry(b"a.csv", TRIGRAMS_MAX + 3)) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        {"size_bytes_max": 0},
        {"size_bytes_max": DOCUMENT_BYTES_MAX + 1},
        {"trigrams_max": 0},
        {"large_files": ("[",)},
        {"large_files": ("{a,b",)},
        {"large_files": ("a" * 2000,)},
    ],
)
def test_an_invalid_policy_is_rejected(arguments: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        Policy(**arguments)  # type: ignore[arg-type]


def test_policies_with_the_same_limits_are_the_same() -> None:
    assert Policy(large_files=("a",)) == Policy(large_files=("a",)) != Policy()
    assert hash(Policy()) == hash(Policy())
