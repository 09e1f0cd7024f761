"""Document 003, "Silo internals": the hash ring. Each test quotes the sentence it proves."""

from argosy.ownership.ring import Ring, moves

SHARDS = [f"shard-{i}" for i in range(256)]
MEMBERS = ["silo-a", "silo-b", "silo-c", "silo-d"]


def test_every_node_builds_the_same_ring_from_the_same_members() -> None:
    """All nodes watch `coord/members/` and deterministically build a consistent hash ring (e.g. Ketama with N virtual
    nodes per member)."""
    seen_by_a, seen_by_b = Ring(MEMBERS), Ring(reversed(MEMBERS))
    assert [seen_by_a.owner(shard) for shard in SHARDS] == [seen_by_b.owner(shard) for shard in SHARDS]
    assert seen_by_a.vnodes > 1


def test_the_whole_shard_space_is_assigned_without_a_coordinator() -> None:
    """Unlike Bigtable, there's no central coordiantor managing which bits are assigned to which nodes -- we just manage
    an internal consistent hash ring that assigns the entire shard space to all the nodes"""
    wanted = [Ring(MEMBERS).keys_of(node, SHARDS) for node in MEMBERS]
    assert all(wanted)
    assert sorted(shard for shards in wanted for shard in shards) == sorted(SHARDS)


def test_a_membership_change_moves_as_few_shards_as_possible() -> None:
    """shifting around as few as possible when cluster membership changes."""
    old, new = Ring(MEMBERS), Ring([*MEMBERS, "silo-e"])
    assert set(moves(old, new, SHARDS)) == new.keys_of("silo-e", SHARDS)
    assert set(moves(new, old, SHARDS)) == new.keys_of("silo-e", SHARDS)


def test_a_joining_node_computes_its_desired_shards_from_the_current_members() -> None:
    """Build ring from current `coord/members/*` and compute desired shard set."""
    desired = Ring([*MEMBERS, "silo-e"]).keys_of("silo-e", SHARDS)
    assert desired
    assert all(Ring(MEMBERS).owner(shard) in MEMBERS for shard in desired)


def test_a_node_knows_the_shards_it_is_next_in_line_for() -> None:
    """Start watches on `coord/members/*` and `coord/shards/<S>/owner` for shards you own or are next-in-line for."""
    ring = Ring(MEMBERS)
    for shard in SHARDS:
        owner, ready_successor = ring.owners(shard, 2)
        assert Ring(set(MEMBERS) - {owner}).owner(shard) == ready_successor


def test_only_the_shards_of_a_leaving_node_get_contenders() -> None:
    """Delete `coord/members/<node_id>` (using the membership lease), triggering ring recompute so contenders begin
    acquisition retries."""
    old, new = Ring(MEMBERS), Ring(MEMBERS[1:])
    moved = moves(old, new, SHARDS)
    assert set(moved) == old.keys_of("silo-a", SHARDS)
    assert {after for _, after in moved.values()} <= set(MEMBERS[1:])


def test_a_membership_change_shifts_responsibility() -> None:
    """All nodes discover this membership change, and update their in-memory hash rings, which shifts which shards they
    are responsible for."""
    old, new = Ring(MEMBERS), Ring([*MEMBERS, "silo-e"])
    for node in MEMBERS:
        assert new.keys_of(node, SHARDS) <= old.keys_of(node, SHARDS)


def test_simultaneous_joins_move_only_shards_of_the_joining_nodes() -> None:
    """**Simultaneous join**: consistent hashing minimizes movement"""
    old, new = Ring(MEMBERS), Ring([*MEMBERS, "silo-e", "silo-f"])
    moved = moves(old, new, SHARDS)
    assert {after for _, after in moved.values()} == {"silo-e", "silo-f"}
    assert len(moved) < len(SHARDS) / 2
