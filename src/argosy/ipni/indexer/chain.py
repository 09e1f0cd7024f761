"""Reads a publisher's chain from its head backwards to the last applied advertisement.

Every advertisement is checked before an older one is read. Blocks are stored in segments, so that a restart reads them
from disk. The result lists what to apply, and two facts that only the whole chain shows: which additions a later
removal of the same provider and context supersedes, and each provider's newest addresses.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from argosy.ipni.formats import advertisement as adverts
from argosy.ipni.formats.advertisement import Advertisement
from argosy.ipni.formats.cid import Cid
from argosy.ipni.indexer.ingest_state import ChainCursor, SyncState
from argosy.ipni.ports import PublisherSource


@dataclass(frozen=True)
class ScanLimits:
    """Limits of one scan."""

    ads_max: int
    segment_ads: int
    pending_bytes_max: int
    is_resync: bool = False


@dataclass
class ScanResult:
    """The advertisements to apply, newest first."""

    head: Cid
    ads: list[bytes] = field(default_factory=list)  # CIDs in binary form, because there may be millions
    superseded: set[bytes] = field(default_factory=set)  # additions that a later removal deletes
    refills: set[bytes] = field(default_factory=set)  # older than the last applied one: they close gaps
    addresses: dict[str, tuple[str, ...]] = field(default_factory=dict)
    older: Cid | None = None  # the advertisement before the oldest: where the scan ended
    closes_gaps: bool = False  # the scan went past applied advertisements because there were gaps
    is_cut: bool = False  # the scan stopped at the depth limit


class Scan:
    """One scan. `check` raises for an unacceptable advertisement; `on_ad` is called for each."""

    def __init__(
        self,
        cursor: ChainCursor,
        source: PublisherSource,
        sync_state: SyncState,
        limits: ScanLimits,
        *,
        check: Callable[[Advertisement], None],
        on_ad: Callable[[Cid], None],
    ) -> None:
        self._cursor = cursor
        self._source = source
        self._sync_state = sync_state
        self._limits = limits
        self._check = check
        self._on_ad = on_ad
        self._publisher = cursor.publisher.id
        # The scan goes backwards in time, so a removal is seen before the additions that it deletes.
        self._removed: set[tuple[str, bytes]] = set()
        self._unsaved: list[tuple[Cid, bytes]] = []
        self._saved_bytes = 0
        self._is_past = False  # the scan has passed the last applied advertisement

    async def run(self, head: Cid) -> ScanResult:
        """Reads from the head to the cursor, the floor, an applied advertisement, the chain's start, or a limit."""
        batch = ScanResult(head, closes_gaps=self._is_passing())
        cid: Cid | None = head
        passed = 0
        try:
            while cid is not None and not self._is_end(cid):
                # The mark counts as well as the cursor: after a handoff of providers that stopped at different
                # advertisements, only marks end the scan.
                is_done = await self._sync_state.ad_state(cid) is not None
                self._is_past = self._is_past or is_done or cid == self._cursor.last
                if is_done and not self._is_passing():
                    break
                # After the end conditions: a chain of exactly the limit's length is complete, not cut.
                if passed == self._limits.ads_max:
                    batch.is_cut = True
                    break
                # Checked before its link is followed: an unsigned advertisement could lead the scan anywhere.
                ad = await self._read(cid)
                passed += 1
                self._on_ad(cid)
                self._add(batch, cid.bytes, ad, is_done=is_done and not self._limits.is_resync)
                cid = ad.previous
        finally:
            await self._save()  # an interrupted scan does not fetch these blocks again
        batch.older = cid
        return batch

    def _is_passing(self) -> bool:
        """Whether applied advertisements do not end the scan: everything is repeated, or there may be gaps behind
        them."""
        return self._limits.is_resync or self._cursor.has_gaps

    def _is_end(self, cid: Cid) -> bool:
        return cid == self._cursor.floor or (cid == self._cursor.last and not self._is_passing())

    async def _read(self, cid: Cid) -> Advertisement:
        block = await self._sync_state.pending(self._publisher, cid)
        is_pending = block is not None
        if block is None:
            block = await self._source.block(cid, is_entries=False)
        ad = adverts.decode(cid, block)
        self._check(ad)  # stored blocks too: the policy may have changed since
        self._saved_bytes += len(block)
        # Bounded by bytes too: a publisher could fill the disk with advertisements before the first one is applied.
        if not is_pending and self._saved_bytes <= self._limits.pending_bytes_max:
            self._unsaved.append((cid, block))
            if len(self._unsaved) >= self._limits.segment_ads:
                await self._save()
        return ad

    def _add(self, batch: ScanResult, cid: bytes, ad: Advertisement, *, is_done: bool) -> None:
        # The provider is part of the key: contexts of two providers in one chain may have the same name. storetheindex
        # compares contexts only, so one provider's removal suppresses another one's content.
        under = (ad.provider, ad.context)
        if ad.addresses:
            batch.addresses.setdefault(
                ad.provider, ad.addresses
            )  # the scan runs backwards: the first ones are the newest
        if not is_done:
            batch.ads.append(cid)
            # Older than what is applied: it must not move the cursor back.
            if self._is_past and not self._limits.is_resync:
                batch.refills.add(cid)
            if not ad.is_removal and under in self._removed:
                batch.superseded.add(cid)
        if ad.is_removal:
            self._removed.add(under)

    async def _save(self) -> None:
        if self._unsaved:
            blocks, self._unsaved = self._unsaved, []
            await self._sync_state.store_pending(self._publisher, blocks)
