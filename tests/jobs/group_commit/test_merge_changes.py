"""Merging staged changes into a scan."""

from collections.abc import AsyncIterator

from hypothesis import given
from hypothesis import strategies as st

from argosy.jobs.overlay import deletions, merge_changes

some_key = st.binary(min_size=1, max_size=2)


async def iterate_pairs(pairs: list[tuple[bytes, bytes]]) -> AsyncIterator[tuple[bytes, bytes]]:
    for pair in pairs:
        yield pair


@given(
    stored=st.dictionaries(some_key, st.binary(max_size=2)),
    changed=st.dictionaries(some_key, st.none() | st.binary(max_size=2)),
    limit=st.none() | st.integers(0, 5),
    reverse=st.booleans(),
)
async def test_a_merged_scan_equals_a_scan_of_the_changed_rows(
    stored: dict[bytes, bytes], changed: dict[bytes, bytes | None], limit: int | None, reverse: bool
) -> None:
    pairs, changes = sorted(stored.items(), reverse=reverse), sorted(changed.items(), reverse=reverse)
    if limit is not None:
        pairs = pairs[: limit + deletions(changes)]  # the limit passed to the store
    got = [pair async for pair in merge_changes(iterate_pairs(pairs), changes, limit=limit, reverse=reverse)]
    whole = {key: value for key, value in {**stored, **changed}.items() if value is not None}
    assert got == sorted(whole.items(), reverse=reverse)[:limit]
