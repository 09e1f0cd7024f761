"""Reading a publisher's chain from its head into the past, down to what has already been applied.

Every advertisement is checked before anything older is read. Blocks are kept in segments, so that a restart reads them
from disk. What comes out is what to apply, and two things only the whole chain can tell: which additions a newer
removal of the same provider and context makes needless, and each provider's newest addresses.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from argosy.ipni.formats import advertisement as adverts
from argosy.ipni.formats.advertisement import Advertisement
from argosy.ipni.formats.cid import Cid
from argosy.ipni.indexer.rows import ChainCursor
from argosy.ipni.indexer.sync_state import SyncState
from argosy.ipni.ports import PublisherSource


@dataclass(frozen=True)
class ScanLimits:
    """How far to read, and whether to pass what is done."""

    ads_max: int
    segment_ads: int
    pending_bytes_max: int
    is_resync: bool = False


@dataclass
class ScanResult:
    """What is to be applied, newest first."""

    head: Cid
    ads: list[bytes] = field(default_factory=list)  # their CIDs in binary: there may be millions
    superseded: set[bytes] = field(default_factory=set)
    refills: set[bytes] = field(default_factory=set)  # older than what was applied last: they close gaps
    addresses: dict[str, tuple[str, ...]] = field(default_factory=dict)
    older: Cid | None = None  # the one before the oldest: where the reading ended
    closes_gaps: bool = False  # read past what is done, for there were gaps
    is_cut: bool = False  # there is more, but it was told to read no further


class Scan:
    """One reading. `check` raises for an advertisement that must not count; `seen` is told of each."""

    def __init__(
        self,
        course: ChainCursor,
        source: PublisherSource,
        ledger: SyncState,
        reach: ScanLimits,
        *,
        check: Callable[[Advertisement], None],
        seen: Callable[[Cid], None],
    ) -> None:
        self._course = course
        self._source = source
        self._ledger = ledger
        self._reach = reach
        self._check = check
        self._seen = seen
        self._publisher = course.publisher.id
        self._removed: set[tuple[str, bytes]] = set()
        self._unkept: list[tuple[Cid, bytes]] = []
        self._kept_bytes = 0
        self._is_past = False  # of what was applied last

    async def run(self, head: Cid) -> ScanResult:
        batch = ScanResult(head, closes_gaps=self._is_passing())
        cid: Cid | None = head
        passed = 0
        try:
            while cid is not None and not self._is_end(cid):
                is_done = await self._ledger.mark(cid) is not None
                self._is_past = self._is_past or is_done or cid == self._course.last
                if is_done and not self._is_passing():
                    break
                if passed == self._reach.ads_max:
                    batch.is_cut = True
                    break
                ad = await self._read(cid)
                passed += 1
                self._seen(cid)
                self._note(batch, cid.bytes, ad, is_done=is_done and not self._reach.is_resync)
                cid = ad.previous
        finally:
            await self._keep()
        batch.older = cid
        return batch

    def _is_passing(self) -> bool:
        return self._reach.is_resync or self._course.has_gaps

    def _is_end(self, cid: Cid) -> bool:
        return cid == self._course.floor or (cid == self._course.last and not self._is_passing())

    async def _read(self, cid: Cid) -> Advertisement:
        block = await self._ledger.pending(self._publisher, cid)
        is_kept = block is not None
        if block is None:
            block = await self._source.block(cid, is_entries=False)
        ad = adverts.decode(cid, block)
        self._check(ad)  # also what was kept: policy may have changed since
        self._kept_bytes += len(block)
        if not is_kept and self._kept_bytes <= self._reach.pending_bytes_max:
            self._unkept.append((cid, block))
            if len(self._unkept) >= self._reach.segment_ads:
                await self._keep()
        return ad

    def _note(self, batch: ScanResult, cid: bytes, ad: Advertisement, *, is_done: bool) -> None:
        under = (ad.provider, ad.context)
        if ad.addresses:
            batch.addresses.setdefault(ad.provider, ad.addresses)
        if not is_done:
            batch.ads.append(cid)
            if self._is_past and not self._reach.is_resync:
                batch.refills.add(cid)
            if not ad.is_removal and under in self._removed:
                batch.superseded.add(cid)
        if ad.is_removal:
            self._removed.add(under)

    async def _keep(self) -> None:
        if self._unkept:
            kept, self._unkept = self._unkept, []
            await self._ledger.keep(self._publisher, kept)
