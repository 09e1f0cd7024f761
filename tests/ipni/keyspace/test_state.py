"""KEY-1: a node applies a layout only if it has every slot that the layout expects of it."""

import pytest

from argosy.base.errors import Invalid
from argosy.ipni.keyspace.layout import KeyspaceLayout, orphans
from argosy.ipni.keyspace.state import NodeState, adopt, missing_slots, pack, readable_slots, unpack
from tests.ipni.keyspace.test_plan import moving, side

FIRST = KeyspaceLayout(1, side("ab"))
JOINING = moving("ab", "abc")
SETTLED = KeyspaceLayout(3, side("abc"))


def test_the_founders_start_with_all_their_slots() -> None:
    state = adopt(None, FIRST, "a")
    assert state == NodeState(1, side("ab").slots_of("a"))
    assert readable_slots(state, FIRST, "a") == state.held


def test_a_joining_node_starts_with_no_slots_and_settles_with_all() -> None:
    state = adopt(None, JOINING, "c")
    assert state.held == frozenset()
    assert missing_slots(state, JOINING, "c") == SETTLED.now.slots_of("c")
    done = NodeState(2, SETTLED.now.slots_of("c"))
    assert adopt(done, SETTLED, "c").version == 3


def test_a_remaining_node_answers_only_for_its_own_slots_once_the_layout_is_settled() -> None:
    moved = adopt(adopt(None, FIRST, "a"), JOINING, "a")
    assert readable_slots(moved, JOINING, "a") == FIRST.now.slots_of("a")
    after = adopt(moved, SETTLED, "a")
    assert readable_slots(after, SETTLED, "a") == SETTLED.now.slots_of("a") < after.held
    assert not after.is_cleared


def test_a_leaving_node_answers_for_no_slot() -> None:
    layout = moving("abc", "ab")
    state = adopt(NodeState(1, side("abc").slots_of("c")), layout, "c")
    assert readable_slots(state, layout, "c") == side("abc").slots_of("c")
    gone = adopt(state, KeyspaceLayout(3, side("ab")), "c")
    assert readable_slots(gone, KeyspaceLayout(3, side("ab")), "c") == frozenset()


def test_a_version_it_has_already_changes_nothing() -> None:
    state = NodeState(3, frozenset({1}), is_cleared=False)
    assert adopt(state, SETTLED, "a") is state


def test_a_layout_that_has_changed_without_a_new_version_is_refused() -> None:
    state = adopt(None, FIRST, "a")
    assert adopt(unpack(pack(state)), FIRST, "a") == state
    with pytest.raises(Invalid, match="a change needs a new version"):
        adopt(unpack(pack(state)), KeyspaceLayout(1, side("abc")), "a")


@pytest.mark.parametrize(
    ("state", "layout", "name", "words"),
    [
        (None, SETTLED, "a", "its store is empty"),
        (None, JOINING, "a", "its store is empty"),
        (None, FIRST, "x", "not a member"),
        (NodeState(1, frozenset()), SETTLED, "a", "give it version 2 first"),
        (NodeState(4, frozenset()), SETTLED, "a", "at version 4"),
        (NodeState(1, frozenset()), JOINING, "a", "not been fetched yet"),
        (NodeState(2, frozenset()), SETTLED, "c", "not been fetched yet"),
        (NodeState(1, frozenset()), JOINING, "c", "empty its directory"),
        (NodeState(1, frozenset()), moving("ab", "b", lost=frozenset("a")), "a", "listed as lost"),
    ],
)
def test_a_node_does_not_apply_a_layout_it_cannot_complete(
    state: NodeState | None, layout: KeyspaceLayout, name: str, words: str
) -> None:
    with pytest.raises(Invalid, match=words):
        adopt(state, layout, name)


def test_slots_without_a_surviving_owner_start_empty() -> None:
    layout = moving("ab", "bc", 1, frozenset("a"))
    lost = side("ab", 1).slots_of("a")
    assert orphans(layout) == lost
    for name, state in (("c", None), ("b", NodeState(1, side("ab", 1).slots_of("b")))):
        assert lost & layout.now.slots_of(name) <= adopt(state, layout, name).held


def test_a_state_is_read_as_it_was_written() -> None:
    state = NodeState(7, frozenset({0, 9, 4095}), is_cleared=False)
    assert unpack(pack(state)) == state
