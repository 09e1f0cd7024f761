"""Taking a publisher over from an indexer that froze.

All of its providers come along with their extended providers. Where the frozen one stopped is where this one begins:
those advertisements are marked as applied, and nothing older is ever read.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from argosy.ipni import keys
from argosy.ipni.formats.cid import Cid
from argosy.ipni.indexer import provider_table, sync_state
from argosy.ipni.indexer.rows import APPLIED, AdState, ChainCursor, pack
from argosy.ipni.model import Peer, Provider


@dataclass(frozen=True)
class HandoffPlan:
    """What changes here: stored in one batch with the assignment."""

    providers: tuple[Provider, ...]
    course: ChainCursor
    rows: dict[bytes, bytes | None]


def takeover(
    publisher: str,
    frozen: Sequence[Provider],
    *,
    known: Callable[[str], Provider | None],
    course: ChainCursor,
) -> HandoffPlan | None:
    """None if the frozen indexer has nothing of the publisher: then there is nothing to hand off."""
    theirs = [each for each in frozen if each.publisher is not None and each.publisher.id == publisher]
    if not theirs:
        return None
    addresses = next((each.publisher.addresses for each in theirs if each.publisher and each.publisher.addresses), ())
    stops = _stops(theirs)
    providers = tuple(_ours(each, known(each.id), Peer(publisher, addresses)) for each in theirs)
    # One floor only: where several providers stopped at different advertisements, the marks stop the reading at the
    # newest of them, whichever that is.
    moved = replace(
        course,
        publisher=Peer(publisher, addresses or course.publisher.addresses),
        floor=stops[0] if len(stops) == 1 else course.floor,
        last=course.last or (stops[0] if len(stops) == 1 else None),
    )
    rows: dict[bytes, bytes | None] = {**sync_state.row(moved)}
    for provider in providers:
        rows.update(provider_table.row(provider))
    for each in theirs:
        if each.frozen_at is not None:
            rows[keys.mark(each.frozen_at)] = pack(AdState(APPLIED, each.id, publisher))
    return HandoffPlan(providers, moved, rows)


def _stops(providers: Iterable[Provider]) -> list[Cid]:
    return list(dict.fromkeys(each.frozen_at for each in providers if each.frozen_at is not None))


def _ours(theirs: Provider, known: Provider | None, publisher: Peer) -> Provider:
    """As they know it, less how far they have come; one that is known here keeps what is known here."""
    if known is not None:
        return known
    return Provider(theirs.id, theirs.addresses, publisher, extended=theirs.extended)
