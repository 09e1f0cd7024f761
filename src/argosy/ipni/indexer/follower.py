"""Follows one publisher's chain: scans it down to the cursor, then applies it oldest first."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Protocol

from argosy.base.errors import ArgosyError, Forbidden, Invalid
from argosy.ipni.formats import advertisement as adverts
from argosy.ipni.formats import cid as cids
from argosy.ipni.formats.advertisement import Advertisement
from argosy.ipni.formats.cid import NO_ENTRIES, Cid
from argosy.ipni.indexer import telemetry
from argosy.ipni.indexer.apply_ad import AdKind, Applier, ApplyRequest, ApplyResult
from argosy.ipni.indexer.chain import Scan, ScanLimits, ScanResult
from argosy.ipni.indexer.ingest_state import ChainCursor, EntryBatch, SharedState, provider_row, with_error
from argosy.ipni.indexer.policy import PeerPolicy
from argosy.ipni.indexer.telemetry import IngestRates, PublisherStatus, SyncRun
from argosy.ipni.model import Peer
from argosy.ipni.ports import PublisherSource


class MirrorSource(PublisherSource, Protocol):
    def complete(self) -> None:
        """Marks the copy as complete: everything was read and is valid."""
        ...


class AdMirror(Protocol):
    """Copies of advertisements and their entries; only what the mirror lacks is fetched from the publisher."""

    def through(
        self, ad: Cid, block: bytes, entries: Cid, source: PublisherSource
    ) -> AbstractAsyncContextManager[MirrorSource]: ...


class Follower:
    """Scans and applies chains, and records progress in the publisher's status."""

    def __init__(
        self,
        shared: SharedState,
        applier: Applier,
        rates: IngestRates,
        *,
        is_frozen: Callable[[], bool],
        mirror: AdMirror | None = None,
    ) -> None:
        self._store = shared.store
        self._sync_state = shared.sync_state
        self._provider_table = shared.providers
        self._provider_locks = shared.provider_locks
        self._policy = shared.policy
        self._settings = shared.settings
        self._metrics = shared.metrics
        self._clock = shared.clock
        self._applier = applier
        self._rates = rates
        self._is_frozen = is_frozen
        self._mirror = mirror

    # -- reading ------------------------------------------------------------------------------------------------------

    async def scan(
        self,
        cursor: ChainCursor,
        source: PublisherSource,
        status: PublisherStatus,
        *,
        head: Cid | None,
        depth: int,
        is_resync: bool,
    ) -> ScanResult | None:
        """Returns None if the publisher has published nothing."""
        head = head or await self._head(cursor.publisher.id, source)
        if head is None:
            return None
        status.state, status.head = "scanning", str(head)
        run = status.scan.begin(self._clock.wall(), AdsScanned=0, HeadAd=str(head))

        def on_ad(cid: Cid) -> None:
            run.add("AdsScanned", 1)
            run.fields["CurrentAd"] = str(cid)

        limits = ScanLimits(
            self._depth(cursor, depth),
            self._settings.segment_ads,
            self._settings.pending_bytes_max,
            is_resync=is_resync,
        )
        check = _Check(cursor.publisher.id, self._policy)
        batch = await Scan(cursor, source, self._sync_state, limits, check=check, on_ad=on_ad).run(head)
        if is_resync:
            started = replace(cursor, last=batch.older, wanted=head)
            # Stored before anything is applied: after a crash the repetition continues instead of looking finished.
            await self._sync_state.reset_ads(cursor.publisher.id, batch.ads, then=started)
        if batch.is_cut:
            run.fields["IsCut"] = True  # there is more beyond the depth limit
        status.scan.end(self._clock.wall())
        status.distance = len(batch.ads)
        return batch

    async def _head(self, publisher: str, source: PublisherSource) -> Cid | None:
        """The head by the publisher's own word; an announced head needs no signature, since its blocks have theirs."""
        signed = await source.head()
        if signed is not None and signed.signer != publisher:
            raise Invalid(f"the head of publisher {publisher} is signed by {signed.signer}")
        return None if signed is None else signed.head

    def _depth(self, cursor: ChainCursor, depth: int) -> int:
        # Only the first sync is limited by `first_depth`: later ones end at the cursor, and a limit would leave a hole
        # (IPN-1).
        limit = depth or (self._settings.first_depth if cursor.last is None else 0)
        return min(limit, self._settings.ads_depth_max) if limit > 0 else self._settings.ads_depth_max

    # -- applying -----------------------------------------------------------------------------------------------------

    async def apply(self, publisher: Peer, batch: ScanResult, source: PublisherSource, status: PublisherStatus) -> None:
        """Applies the chain up to the head. On an error the cursor stays at the last applied advertisement."""
        total = len(batch.ads)
        if total:
            status.state = "processing"
            run = status.processing.begin(
                self._clock.wall(), AdsProcessed=0, AdsTotal=total, AdsLeft=total, ErrorCount=0
            )
            # IPN-3: oldest first. The scan listed them newest first, so this runs from the end of the list.
            for left in range(total - 1, -1, -1):
                cid = cids.decode(batch.ads[left])
                run.fields["CurrentAd"] = str(cid)
                outcome = await self._apply_one(publisher, cid, batch, source, status, lag=left)
                self._count(outcome, run)
                run.fields["AdsLeft"] = status.distance = left
            status.processing.end(self._clock.wall())
            status.download.end(self._clock.wall())
        await self._reach_head(publisher, batch)
        status.distance = 0

    async def _apply_one(
        self,
        publisher: Peer,
        cid: Cid,
        batch: ScanResult,
        source: PublisherSource,
        status: PublisherStatus,
        *,
        lag: int,
    ) -> ApplyResult:
        block = await self._sync_state.pending(publisher.id, cid)
        # Not stored: the scan had reached its byte limit, so what exceeded it is fetched a second time.
        if block is None:
            block = await source.block(cid, is_entries=False)
        ad = adverts.decode(cid, block)
        request = ApplyRequest(
            cid,
            ad,
            publisher,
            source,
            addresses=batch.addresses.get(ad.provider, ()),
            is_superseded=cid.bytes in batch.superseded,
            is_refill=cid.bytes in batch.refills,
            lag=lag,
            on_stored=self._counter(ad, status),
        )
        # Chains of two publishers may name one provider: its row is read, changed and written under its lock.
        async with self._provider_locks.hold(ad.provider):
            try:
                return await self._apply_mirrored(request, block)
            except ArgosyError as error:
                # Under the same lock, because it rewrites the provider's row.
                await self._record_error(ad.provider, str(error))
                raise

    async def _apply_mirrored(self, request: ApplyRequest, block: bytes) -> ApplyResult:
        has_entries = request.ad.entries != NO_ENTRIES and not request.ad.is_removal and not request.is_superseded
        if self._mirror is None or not has_entries:
            return await self._applier.apply(request)
        async with self._mirror.through(request.cid, block, request.ad.entries, request.source) as mirrored:
            outcome = await self._applier.apply(replace(request, source=mirrored))
            # An indexer that froze midway reports METADATA: its copy lacks blocks and is thrown away.
            if outcome.kind is AdKind.CONTENT and not outcome.error:
                mirrored.complete()
            return outcome

    async def _reach_head(self, publisher: Peer, batch: ScanResult) -> None:
        """Moves the cursor to the head, unless the announced head is older than the last applied one."""
        was = self._sync_state.cursor(publisher.id)
        cursor = replace(
            was,
            last=batch.head if was.last is None or was.last == was.floor else was.last,
            wanted=None if was.wanted == batch.head else was.wanted,
            # A frozen indexer applied without entries, and a cut scan did not see everything: the gaps remain.
            has_gaps=was.has_gaps and (not batch.closes_gaps or batch.is_cut or self._is_frozen()),
        )
        if cursor != was:
            await self._sync_state.store_cursor(cursor)
        # Last: until the cursor is stored, the blocks may be needed again.
        await self._sync_state.clear_pending(publisher.id)

    async def _record_error(self, provider: str, error: str) -> None:
        known = self._provider_table.find(provider)
        if known is not None:
            failed = with_error(known, error, self._clock.wall())
            await self._store.write(provider_row(failed))
            self._provider_table.apply(failed)

    # -- counting -----------------------------------------------------------------------------------------------------

    def _counter(self, ad: Advertisement, status: PublisherStatus) -> Callable[[EntryBatch], None]:
        began = self._clock.now()

        def on_stored(step: EntryBatch) -> None:
            nonlocal began
            now = self._clock.now()
            self._rates.add(ad.provider, len(step.multihashes), now - began)
            # From batch to batch, so the time includes fetching.
            began = now
            run = status.download.now or status.download.begin(self._clock.wall())
            run.add("BytesDownloaded", step.bytes_read)
            run.add("HamtMultihashCount" if step.is_hamt else "ChunkMultihashCount", len(step.multihashes))
            run.add("EntryChunkCount", step.blocks)
            run.add("MultihashCount", len(step.multihashes))
            self._metrics.inc(telemetry.MULTIHASHES, len(step.multihashes))
            self._metrics.inc(telemetry.ENTRY_BYTES, step.bytes_read)
            if step.bad:
                self._metrics.inc(telemetry.MULTIHASHES_BAD, step.bad)

        return on_stored

    def _count(self, outcome: ApplyResult, run: SyncRun) -> None:
        run.add("AdsProcessed", 1)
        if outcome.error:
            run.add("ErrorCount", 1)
            run.fields["LastError"] = outcome.error
            self._metrics.inc(telemetry.ADS_SKIPPED)
        self._metrics.inc(telemetry.ADS, kind=outcome.kind or "malformed")


class _Check:
    """Checks that an advertisement is signed, and that signer and publisher are allowed."""

    def __init__(self, publisher: str, policy: PeerPolicy) -> None:
        self._publisher = publisher
        self._policy = policy

    def __call__(self, ad: Advertisement) -> None:
        signer = adverts.signer(ad)
        # Publisher and signer are checked separately: a chain may be served by one peer and signed by another.
        self._policy.check(self._publisher, ad.provider)
        if not self._policy.may_publish(signer, ad.provider):
            raise Forbidden(f"{signer} signed for provider {ad.provider} and is not allowed to publish for it")
