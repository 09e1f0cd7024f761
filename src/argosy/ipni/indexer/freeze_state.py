"""What is written down when an indexer freezes, and undone when it thaws.

At a freeze every provider's `frozen_at` becomes the last advertisement of its publisher's chain that was applied in
full: there a successor begins, and there this indexer begins again when it thaws. Nothing between is lost, nothing
before is read twice.
"""

from dataclasses import replace

from argosy.base.errors import Conflict
from argosy.ipni import keys
from argosy.ipni.formats.cid import Cid
from argosy.ipni.indexer import provider_table as rosters
from argosy.ipni.indexer import sync_state as ledgers
from argosy.ipni.indexer.freeze_policy import Freezer
from argosy.ipni.indexer.provider_table import ProviderTable
from argosy.ipni.indexer.rows import ChainCursor
from argosy.ipni.indexer.sync_state import Change, SyncState
from argosy.ipni.model import Provider
from argosy.ipni.ports import IndexStore


async def freeze(store: IndexStore, ledger: SyncState, roster: ProviderTable, at: float) -> None:
    """In one batch: a crash leaves the indexer wholly frozen or not at all."""
    courses = [replace(course, frozen_at=_stop(course)) for course in ledger.courses()]
    providers = [_frozen(provider, ledger, at) for provider in roster.all()]
    rows: Change = {keys.FROZEN: repr(at).encode()}
    for course in courses:
        rows.update(ledgers.row(course))
    for provider in providers:
        rows.update(rosters.row(provider))
    await store.write(rows, is_durable=True)
    for course in courses:
        ledger.take(course)
    for provider in providers:
        roster.take(provider)


def _frozen(provider: Provider, ledger: SyncState, at: float) -> Provider:
    publisher = provider.publisher
    stop = provider.last_ad if publisher is None else _stop(ledger.course(publisher.id))
    return replace(provider, frozen_at=stop, frozen_at_time=provider.last_ad_at or at)


def _stop(course: ChainCursor) -> Cid | None:
    """Where a successor begins. Gaps may lie anywhere before the last advertisement, so it must read from the start."""
    return course.floor if course.has_gaps else course.last


async def thaw(store: IndexStore, ledger: SyncState, roster: ProviderTable) -> None:
    """Marks go first, while the indexer still counts as frozen; the rest is one batch, so a crash only repeats it."""
    await ledger.drop_frozen_marks()
    courses = [
        replace(course, last=course.frozen_at, frozen_at=None, wanted=course.wanted or course.last)
        for course in ledger.courses()
    ]
    providers = [
        replace(provider, last_ad=provider.frozen_at, frozen_at=None, frozen_at_time=0.0) for provider in roster.all()
    ]
    rows: Change = {keys.FROZEN: None}
    for course in courses:
        rows.update(ledgers.row(course))
    for provider in providers:
        rows.update(rosters.row(provider))
    await store.write(rows, is_durable=True)
    for course in courses:
        ledger.take(course)
    for provider in providers:
        roster.take(provider)


def refuse_if_full(freezer: Freezer, percent: float) -> None:
    if freezer.is_over(percent):
        raise Conflict(
            f"cannot unfreeze: {percent:.1f} % of the disk is in use and the indexer freezes at "
            f"{freezer.limit_percent:g} %; free some space or raise ipni.freeze_at_percent"
        )
