"""The ring: same members, same ring; and a change of members moves no more than it must (OWN-5)."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.ownership.ring import VNODES_MAX, Ring, moves

PINNED = ["n2", "n2", "n2", "n3", "n3", "n3", "n1", "n3", "n2", "n3", "n1", "n3"]  # of the first dozen keys
KEYS = [f"shard-{i}" for i in range(200)]

names = st.text(st.characters(categories=["L", "N", "P"], codec="utf-8"), min_size=1, max_size=12)
members = st.frozensets(names, max_size=8)
keys = st.lists(st.text(max_size=20), max_size=40)
vnodes = st.integers(1, 20)


def test_a_ring_without_nodes_has_no_owner() -> None:
    assert Ring([]).owner("a") is None
    assert Ring([]).owners("a", 3) == ()
    assert Ring([]).keys_of("n1", KEYS) == frozenset()


def test_a_single_node_owns_everything() -> None:
    assert Ring(["n1"]).keys_of("n1", KEYS) == frozenset(KEYS)


def test_every_release_computes_the_same_owners() -> None:
    ring = Ring(["n1", "n2", "n3"])
    assert [ring.owner(key) for key in KEYS[:12]] == PINNED


@given(members=st.lists(names, max_size=8), keys=keys, vnodes=vnodes, random=st.randoms(use_true_random=False))
def test_neither_order_nor_repetition_of_nodes_matters(
    members: list[str], keys: list[str], vnodes: int, random: Random
) -> None:
    shuffled = members * 2
    random.shuffle(shuffled)
    one, two = Ring(members, vnodes=vnodes), Ring(shuffled, vnodes=vnodes)
    assert one == two
    assert hash(one) == hash(two)
    assert [one.owners(key, 9) for key in keys] == [two.owners(key, 9) for key in keys]


@given(members=members, newcomer=names, keys=keys, vnodes=vnodes)
def test_when_a_node_joins_every_moved_key_goes_to_it(
    members: frozenset[str], newcomer: str, keys: list[str], vnodes: int
) -> None:
    old, new = Ring(members - {newcomer}, vnodes=vnodes), Ring(members | {newcomer}, vnodes=vnodes)
    moved = moves(old, new, keys)
    assert {after for _, after in moved.values()} <= {newcomer}
    assert set(moved) == new.keys_of(newcomer, keys)


@given(members=members, drainer=names, keys=keys, vnodes=vnodes)
def test_when_a_node_leaves_only_its_keys_move(
    members: frozenset[str], drainer: str, keys: list[str], vnodes: int
) -> None:
    old, new = Ring(members | {drainer}, vnodes=vnodes), Ring(members - {drainer}, vnodes=vnodes)
    moved = moves(old, new, keys)
    assert {before for before, _ in moved.values()} <= {drainer}
    assert set(moved) == old.keys_of(drainer, keys)


@given(before=members, after=members, keys=keys, vnodes=vnodes)
def test_any_change_moves_keys_only_from_leavers_or_to_newcomers(
    before: frozenset[str], after: frozenset[str], keys: list[str], vnodes: int
) -> None:
    for was, now in moves(Ring(before, vnodes=vnodes), Ring(after, vnodes=vnodes), keys).values():
        assert was in before - after or now in after - before or not before or not after


@given(members=members, keys=keys, count=st.integers(0, 10), vnodes=vnodes)
def test_owners_are_distinct_and_start_with_the_owner(
    members: frozenset[str], keys: list[str], count: int, vnodes: int
) -> None:
    ring = Ring(members, vnodes=vnodes)
    for key in keys:
        owners = ring.owners(key, count)
        assert len(owners) == len(set(owners)) == min(count, len(members))
        assert owners[:1] == ((ring.owner(key),) if members and count else ())


@given(members=members.filter(bool), keys=keys, vnodes=vnodes)
def test_the_next_in_line_inherits_when_the_owner_leaves(members: frozenset[str], keys: list[str], vnodes: int) -> None:
    ring = Ring(members, vnodes=vnodes)
    for key in keys:
        first, *rest = ring.owners(key, len(members))
        assert Ring(members - {first}, vnodes=vnodes).owners(key, len(members)) == tuple(rest)


@given(members=members.filter(bool), keys=keys, vnodes=vnodes)
def test_each_key_is_keys_of_exactly_one_node(members: frozenset[str], keys: list[str], vnodes: int) -> None:
    ring = Ring(members, vnodes=vnodes)
    wanted = [key for node in members for key in ring.keys_of(node, keys)]
    assert sorted(wanted) == sorted(set(keys))


def test_two_nodes_at_one_point_are_distinguished_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("argosy.ownership.ring.hash64", lambda data: 7)
    assert Ring(["b", "a"]).owners("k", 2) == Ring(["a", "b"]).owners("k", 2) == ("a", "b")
    assert moves(Ring(["b"]), Ring(["a", "b"]), ["k"]) == {"k": ("b", "a")}


@pytest.mark.parametrize(("position", "owner"), [(0, "a"), (10, "a"), (11, "b"), (20, "b"), (21, "a"), (99, "a")])
def test_a_key_belongs_to_the_first_point_at_or_after_it_and_the_circle_closes(
    monkeypatch: pytest.MonkeyPatch, position: int, owner: str
) -> None:
    places = {"a#0": 10, "b#0": 20, "key": position}
    monkeypatch.setattr("argosy.ownership.ring.hash64", places.__getitem__)
    assert Ring(["a", "b"], vnodes=1).owner("key") == owner


@pytest.mark.parametrize("count", [3, 10, 50])
def test_no_node_gets_much_more_or_less_than_its_share(count: int) -> None:
    ring = Ring(f"node-{i}" for i in range(count))
    fair = 1000
    loads = Counter(ring.owner(f"key-{i}") for i in range(fair * count))
    assert max(loads.values()) < 1.4 * fair
    assert min(loads[node] for node in ring.nodes) > 0.65 * fair


def test_a_joining_node_takes_about_its_fair_share() -> None:
    old, new = Ring(f"n{i}" for i in range(9)), Ring(f"n{i}" for i in range(10))
    moved = moves(old, new, (f"key-{i}" for i in range(10_000)))
    assert 700 < len(moved) < 1300


def test_names_like_points_do_not_meet() -> None:
    assert len(set(Ring(["a", "a#1", "a#1#1"], vnodes=20)._points)) == 60


@pytest.mark.parametrize("vnodes", [0, -1, VNODES_MAX + 1])
def test_a_silly_number_of_points_is_rejected(vnodes: int) -> None:
    with pytest.raises(Invalid, match="vnodes must be"):
        Ring(["a"], vnodes=vnodes)


def test_a_node_without_a_name_is_rejected() -> None:
    with pytest.raises(Invalid, match="node id"):
        Ring(["a", ""])


def test_a_negative_number_of_owners_is_rejected() -> None:
    with pytest.raises(Invalid, match="not -1"):
        Ring(["a"]).owners("k", -1)


def test_rings_with_different_points_cannot_be_compared() -> None:
    with pytest.raises(Invalid, match="8 and 9 vnodes"):
        moves(Ring(["a"], vnodes=8), Ring(["a"], vnodes=9), KEYS)
