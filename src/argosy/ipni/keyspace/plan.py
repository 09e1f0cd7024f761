"""What has to move when the layout changes: just the slots that somebody owns anew, each from somebody who has it.

On a change of members only slots between old and new owners move (OWN-5): an owner that stays keeps its copy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from argosy.ipni.keyspace.layout import KeyspaceLayout


@dataclass(frozen=True)
class SlotMove:
    """`sources` have the slot, the one to ask first at the front; with none the slot's data is lost."""

    slot: int
    to: str
    sources: tuple[str, ...]


def moves(layout: KeyspaceLayout) -> list[SlotMove]:
    """All of them, by slot; none if the layout is settled."""
    if layout.former is None:
        return []
    found = []
    for slot, (old, new) in enumerate(zip(layout.former.owners, layout.now.owners, strict=True)):
        having = [name for name in old if name not in layout.lost]
        at = slot % len(having) if having else 0  # so that all who have it share the work
        found += [SlotMove(slot, name, (*having[at:], *having[:at])) for name in new if name not in old]
    return found


def gains(layout: KeyspaceLayout, node: str) -> list[SlotMove]:
    """What one node has to gather."""
    return [each for each in moves(layout) if each.to == node]


def orphans(layout: KeyspaceLayout) -> frozenset[int]:
    """Slots of which all owners are lost: they begin empty, and their publishers must be ingested again."""
    return frozenset(each.slot for each in moves(layout) if not each.sources)


def next_pull(left: Sequence[SlotMove], *, failures: int, slots_max: int) -> tuple[str, list[int]]:
    """Whom to ask for which slots next; after failures somebody else, where there is somebody."""
    names = list(dict.fromkeys(name for each in left for name in each.sources))
    if not names:
        return "", []
    source = names[failures % len(names)]
    first = [each.slot for each in left if each.sources[:1] == (source,)]
    if failures >= len(names) or not first:  # every source was tried with its own share: now with any
        first = [each.slot for each in left if source in each.sources]
    return source, first[:slots_max]
