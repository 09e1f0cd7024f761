"""The value types of ownership, and the values they reject."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.ownership.model import (
    BIDS_MAX,
    NODE_ID_MAX,
    PRIMARY,
    REPLICAS_MAX,
    SUCCESSOR,
    UNIT_NAME_MAX,
    Member,
    SessionRole,
    Space,
    Unit,
    UnitSpec,
)
from tests.ownership.builders import lease, session

NAMES = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=40).filter(str.isprintable)


@given(NAMES, st.integers(SUCCESSOR, REPLICAS_MAX))
def test_a_unit_is_read_back_from_its_key(name: str, replica: int) -> None:
    assert Unit.from_key(Unit(name, replica).key) == Unit(name, replica)


def test_a_name_may_contain_what_separates_keys() -> None:
    unit = Unit("1:https://host/a|b:c", 2)
    assert Unit.from_key(unit.key) == unit


@pytest.mark.parametrize("name", ["", "a\nb", "\x00", "x" * (UNIT_NAME_MAX + 1)])
def test_a_unit_needs_a_printable_name(name: str) -> None:
    with pytest.raises(Invalid, match="printable"):
        Unit(name)


@pytest.mark.parametrize("node", ["", "a\tb", "x" * (NODE_ID_MAX + 1)])
def test_a_node_id_is_short_and_printable(node: str) -> None:
    with pytest.raises(Invalid, match="node id"):
        Member(node, "http://somewhere")


@pytest.mark.parametrize("name", ["", "a/b", "{a}", "a b", "a:b"])
def test_a_spaces_name_can_be_part_of_any_key(name: str) -> None:
    with pytest.raises(Invalid, match="space"):
        Space(name, is_auctioned=True)


def test_siblings_are_all_other_slots_of_one_name() -> None:
    siblings = Unit("a", 1).siblings()
    assert {unit.replica for unit in siblings} == {SUCCESSOR, PRIMARY, *range(2, REPLICAS_MAX + 1)}
    assert {unit.name for unit in siblings} == {"a"}


def test_a_primary_is_called_by_its_name_alone() -> None:
    assert (str(Unit("a")), str(Unit("a", 2)), str(Unit("a", SUCCESSOR))) == ("a", "a~2", "a~-1")


def test_the_slots_of_a_spec_are_primary_and_replicas() -> None:
    assert UnitSpec("a", replicas=2).slots() == (Unit("a"), Unit("a", 1), Unit("a", 2))
    assert UnitSpec("a").slots() == (Unit("a"),)


@pytest.mark.parametrize(
    "wrong",
    [
        {"replicas": -1},
        {"replicas": REPLICAS_MAX + 1},
        {"footprint_bytes": -1},
        {"max_bids": 0},
        {"max_bids": BIDS_MAX + 1},
    ],
)
def test_a_spec_out_of_range_is_rejected_with_its_name(wrong: dict[str, int]) -> None:
    with pytest.raises(Invalid, match="repo-7"):
        UnitSpec("repo-7", **wrong)


def test_a_lease_belongs_to_one_run_of_a_node() -> None:
    held = lease("a", node="n1", token="run-1")
    assert held.is_of(session(node="n1", token="run-1"))
    assert not held.is_of(session(node="n1", token="run-2"))
    assert not held.is_of(session(node="n2", token="run-1"))
    assert session(SessionRole.MEMBER) != session(SessionRole.HOLDER)
