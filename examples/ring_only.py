"""The hash ring alone: who should hold what, known to every process without asking anybody.

python examples/ring_only.py
"""

# ruff: noqa: T201  (an example prints)

from collections import Counter

from argosy.ownership.ring import Ring, moves

shards = [f"shard-{n}" for n in range(1000)]
before = Ring(["ada", "bo", "cy"])
after = Ring(["ada", "bo", "cy", "dee"])

print("shard-7 belongs to", before.owner("shard-7"), "and then to its replicas on", before.owners("shard-7", 3)[1:])
print("shares of three nodes:", dict(sorted(Counter(before.owner(shard) for shard in shards).items(), key=str)))

moved = moves(before, after, shards)
print(f"when dee joins, {len(moved)} of {len(shards)} shards move, all of them to", {new for _, new in moved.values()})
