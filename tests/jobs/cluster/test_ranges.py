"""Hash ranges: the vectors that clients rely on, and complete coverage of tenants."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.jobs.cluster.shard_map import HashRange, check_tenant_name, equal_ranges, hash_of

tenants = st.text(min_size=1, max_size=64)


@pytest.mark.parametrize(
    ("tenant", "expected"),
    [
        ("-", "7a162ebe4ce6fc55"),
        ("test-tenant", "7bda10a719882c53"),
        ("tenant-0", "49f34396dbc21c44"),
        ("customer-123", "0bb632d435317a69"),
        ("", "ef46db3751d8e999"),
    ],
)
def test_a_tenants_hash_matches_other_clients(tenant: str, expected: str) -> None:
    assert hash_of(tenant) == expected


def test_eight_shards_split_by_the_top_three_bits() -> None:
    starts = [part.start for part in equal_ranges(8)]
    assert starts == ["", *(f"{number * 2:x}000000000000000" for number in range(1, 8))]


def test_boundaries_are_rounded_down() -> None:
    assert [part.end for part in equal_ranges(3)] == ["5555555555555555", "aaaaaaaaaaaaaaaa", ""]


@given(tenants, st.integers(1, 100))
def test_every_tenant_is_in_exactly_one_range(tenant: str, count: int) -> None:
    assert sum(part.has(tenant) for part in equal_ranges(count)) == 1


@given(tenants, st.lists(tenants, max_size=6))
def test_splitting_leaves_every_tenant_in_exactly_one_part(tenant: str, others: list[str]) -> None:
    parts = [HashRange()]
    for point in map(hash_of, others):
        at = next(number for number, part in enumerate(parts) if part.has_hash(point))
        if point not in (parts[at].start, "0" * 16):
            parts[at : at + 1] = parts[at].split(point)
    assert sum(part.has(tenant) for part in parts) == 1


@pytest.mark.parametrize(
    ("within", "point"),
    [
        (HashRange(), "0000000000000000"),
        (HashRange("4000000000000000", ""), "4000000000000000"),
        (HashRange("4000000000000000", "8000000000000000"), "8000000000000000"),
        (HashRange(), "8"),
        (HashRange(), "800000000000000G"),
        (HashRange(), "8000000000000000\n"),
        (HashRange(), "ABCDEF0123456789"),
    ],
)
def test_a_point_that_leaves_one_part_empty_or_is_not_a_hash_is_rejected(within: HashRange, point: str) -> None:
    with pytest.raises(Invalid):
        within.split(point)


def test_the_middle_halves_a_range() -> None:
    assert HashRange().middle() == "8000000000000000"
    assert HashRange("8000000000000000", "").middle() == "c000000000000000"
    assert HashRange("", "4000000000000000").middle() == "2000000000000000"


@pytest.mark.parametrize("tenant", ["", "x" * 65])
def test_a_tenant_name_has_a_bounded_length(tenant: str) -> None:
    with pytest.raises(Invalid, match="1 to 64"):
        check_tenant_name(tenant)
