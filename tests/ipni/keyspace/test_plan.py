"""On a change of members only slots with a new owner move, each from a node that has it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.ipni.keyspace.layout import (
    SLOTS,
    KeyspaceLayout,
    NodeSet,
    SlotMove,
    finalize,
    gains,
    moves,
    next_pull,
    orphans,
    revert,
    start_move,
)

NAMES = "abcdefg"
few = settings(max_examples=12, deadline=None)
members = st.sets(st.sampled_from(NAMES), min_size=1, max_size=6)
replicas = st.integers(1, 3)


def side(names: str | set[str], replicas: int = 2) -> NodeSet:
    return NodeSet({name: f"http://{name}" for name in sorted(names)}, replicas)


def moving(
    old: str | set[str], new: str | set[str], replicas: int = 2, lost: frozenset[str] = frozenset()
) -> KeyspaceLayout:
    return KeyspaceLayout(2, side(new, replicas), side(old, replicas), lost)


@few
@given(old=members, new=members, replicas=replicas)
def test_after_all_moves_every_owner_has_its_slots_and_no_move_is_superfluous(
    old: set[str], new: set[str], replicas: int
) -> None:
    layout = moving(old, new, replicas)
    assert layout.previous is not None
    before = {(name, slot) for slot, owners in enumerate(layout.previous.owners) for name in owners}
    after = {(name, slot) for slot, owners in enumerate(layout.now.owners) for name in owners}
    moved = [(each.to, each.slot) for each in moves(layout)]
    assert len(moved) == len(set(moved))
    assert set(moved) == after - before
    assert all((source, each.slot) in before for each in moves(layout) for source in each.sources)


@few
@given(old=members, joining=st.sampled_from("xyz"), replicas=replicas)
def test_when_a_node_joins_slots_move_to_it_alone(old: set[str], joining: str, replicas: int) -> None:
    layout = moving(old, old | {joining}, replicas)
    assert {each.to for each in moves(layout)} == {joining}  # OWN-5
    assert {each.slot for each in moves(layout)} == layout.now.slots_of(joining)


@few
@given(new=members, leaving=st.sampled_from("xyz"), replicas=replicas)
def test_when_a_node_leaves_only_its_slots_move(new: set[str], leaving: str, replicas: int) -> None:
    layout = moving(new | {leaving}, new, replicas)
    assert layout.previous is not None
    assert {each.slot for each in moves(layout)} <= layout.previous.slots_of(leaving)  # OWN-5


@few
@given(old=members, lost=st.sampled_from(NAMES), replicas=replicas)
def test_lost_nodes_get_no_requests(old: set[str], lost: str, replicas: int) -> None:
    old, new = old | {lost}, (old - {lost}) | {"x"}
    layout = moving(old, new, replicas, frozenset({lost}))
    assert lost not in layout.urls
    assert all(lost not in each.sources for each in moves(layout))
    assert all(lost not in owners for owners in layout.owners)
    is_orphaned = replicas == 1 or len(old) == 1
    assert bool(orphans(layout)) == is_orphaned


def test_each_slot_has_as_many_owners_as_replicas_if_there_are_so_many_nodes() -> None:
    assert {len(set(owners)) for owners in side("abc", 2).owners} == {2}
    assert {len(set(owners)) for owners in side("ab", 3).owners} == {2}


def test_slots_are_shared_out_about_evenly() -> None:
    built = side("abcdefgh", 1)
    sizes = [len(built.slots_of(name)) for name in "abcdefgh"]
    assert sum(sizes) == SLOTS
    assert max(sizes) < 1.5 * SLOTS / 8


def test_while_slots_move_writes_go_to_both_and_reads_to_the_former_first() -> None:
    layout = moving("abc", "abcd")
    assert layout.previous is not None
    for slot in range(SLOTS):
        old, new = layout.previous.owners[slot], layout.now.owners[slot]
        assert layout.owners[slot][: len(old)] == old
        assert set(layout.owners[slot]) == set(old) | set(new)


def test_versions_follow_one_another() -> None:
    first = KeyspaceLayout(1, side("ab"))
    second = start_move(first, side("abc").nodes)
    assert (second.version, second.previous, second.now.replicas) == (2, first.now, 2)
    assert finalize(second) == KeyspaceLayout(3, side("abc"))
    assert revert(second) == KeyspaceLayout(3, side("ab"))
    for wrong in (lambda: start_move(second, side("a").nodes), lambda: finalize(first), lambda: revert(first)):
        with pytest.raises(Invalid):
            wrong()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: KeyspaceLayout(0, side("a")), "1 or more"),
        (lambda: KeyspaceLayout(1, side("a"), side("b")), "cannot be moving"),
        (lambda: KeyspaceLayout(2, side("a"), None, frozenset("b")), "remove them"),
        (lambda: KeyspaceLayout(2, side("ab"), side("ab"), frozenset("b")), "b is lost"),
        (lambda: KeyspaceLayout(2, side("ab"), side("ab"), frozenset("x")), "x is lost"),
        (lambda: KeyspaceLayout(2, NodeSet({"a": "http://other"}), side("a")), "two URLs"),
        (lambda: NodeSet({}), "1 to 256"),
        (lambda: NodeSet({"a": "http://a"}, 0), "replicas"),
        (lambda: NodeSet({"a": "http://a", "b": "http://a"}), "same URL"),
    ],
)
def test_inconsistent_arguments_are_rejected(wrong: object, words: str) -> None:
    assert callable(wrong)
    with pytest.raises(Invalid, match=words):
        wrong()


def test_a_pull_requests_each_sources_share_and_after_failures_the_others() -> None:
    left = [
        SlotMove(1, "d", ("a", "b")),
        SlotMove(2, "d", ("b", "a")),
        SlotMove(3, "d", ("a", "c")),
        SlotMove(4, "d", ()),
    ]
    assert next_pull(left, failures=0, slots_max=9) == ("a", [1, 3])
    assert next_pull(left, failures=0, slots_max=1) == ("a", [1])
    assert next_pull(left, failures=1, slots_max=9) == ("b", [2])
    assert next_pull(left, failures=2, slots_max=9) == ("c", [3])
    assert next_pull(left, failures=3, slots_max=9) == ("a", [1, 2, 3])
    assert next_pull(left, failures=4, slots_max=9) == ("b", [1, 2])
    assert next_pull(left[3:], failures=0, slots_max=9) == ("", [])


def test_sources_share_the_work() -> None:
    first_sources = [each.sources[0] for each in gains(moving("abc", "abcd", 2), "d")]
    assert min(first_sources.count(name) for name in "abc") > len(first_sources) / 5
