"""Applies one advertisement: first what it says about its provider, then what it says about content.

The last batch of an advertisement also moves the publisher's cursor and records the advertisement's state, so each is
applied once and in order across crashes (IPN-3). Every batch passes the write gate: a frozen indexer stores only
metadata, removals and changes of providers (IPN-2).

An invalid advertisement (Invalid) and entries that the publisher does not have (NotFound) are skipped permanently;
otherwise one bad link would block the chain forever. Any other error stops the chain, which is retried: entries that
cannot be read now must never count as indexed.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from argosy.base.errors import Invalid, NotFound
from argosy.ipni import keys
from argosy.ipni.formats.advertisement import Advertisement
from argosy.ipni.formats.cid import NO_ENTRIES, Cid
from argosy.ipni.indexer.ingest_state import (
    ChainCursor,
    Change,
    EntriesProgress,
    EntryBatch,
    SharedState,
    UnknownWhileFrozen,
    pack,
    provider_row,
    with_applied,
)
from argosy.ipni.model import IndexValue, Peer, Provider
from argosy.ipni.ports import PublisherSource, Rows


class AdKind(StrEnum):
    """Kinds of advertisements."""

    REMOVAL = "removal"
    ADDRESSES = "addresses"
    METADATA = "metadata"
    CONTENT = "content"


class WriteGate(Protocol):
    """Admits writes to the store; see `freeze.FreezeGate`. `admit` yields whether entries may be stored."""

    def admit(self) -> AbstractAsyncContextManager[bool]: ...

    async def is_open(self) -> bool: ...


class EntriesReader(Protocol):
    def read(self, source: PublisherSource, progress: EntriesProgress) -> AsyncGenerator[EntryBatch]:
        """Yields the entries after `progress`; raises Invalid and NotFound as `PublisherSource` does."""
        ...


@dataclass(frozen=True)
class ApplyRequest:
    """One advertisement to apply."""

    cid: Cid
    ad: Advertisement
    publisher: Peer
    source: PublisherSource
    addresses: Sequence[str] = ()  # the provider's newest addresses, from later advertisements
    is_superseded: bool = False  # a later removal deletes everything that it would add
    is_refill: bool = False  # newer advertisements have been applied already
    lag: int = 0  # number of later advertisements that are known
    on_stored: Callable[[EntryBatch], None] = field(default=lambda step: None)


@dataclass(frozen=True)
class ApplyResult:
    """What became of an advertisement; without a kind it was malformed."""

    kind: AdKind | None
    error: str = ""  # why it was skipped permanently


def kind_of(ad: Advertisement, *, is_superseded: bool = False) -> AdKind:
    # Before metadata is looked at, because a removal may have none.
    if ad.is_removal:
        return AdKind.REMOVAL
    if is_superseded:
        return AdKind.ADDRESSES  # its entries would be removed again: they are not even fetched
    if not ad.metadata:
        if ad.entries != NO_ENTRIES:
            raise Invalid("the advertisement has entries and no metadata")
        return AdKind.ADDRESSES
    return AdKind.METADATA if ad.entries == NO_ENTRIES else AdKind.CONTENT


class Applier:
    """Applies advertisements; the caller holds the provider's lock and keeps the order of the chain."""

    def __init__(self, shared: SharedState, gate: WriteGate, entries: EntriesReader) -> None:
        self._store = shared.store
        self._provider_table = shared.providers
        self._sync_state = shared.sync_state
        self._gate = gate
        self._entries = entries
        self._wall = shared.clock.wall

    async def apply(self, request: ApplyRequest) -> ApplyResult:
        ad = request.ad
        try:
            # Malformed advertisements are passed, not retried: the chain is immutable, so they will never be better.
            kind = kind_of(ad, is_superseded=request.is_superseded)
        except Invalid as error:
            await self._finish(request, self._store.write, error=str(error))
            return ApplyResult(None, str(error))
        value = IndexValue(ad.provider, ad.context, ad.metadata)
        match kind:
            case AdKind.REMOVAL:
                await self._finish(request, lambda rows: self._store.remove_context(ad.provider, ad.context, rows))
            case AdKind.ADDRESSES:
                await self._finish(request, self._store.write)
            case AdKind.METADATA:
                await self._finish(request, lambda rows: self._store.put(value, (), rows))
            case AdKind.CONTENT:
                return await self._content(request, value)
        return ApplyResult(kind)

    async def _content(self, request: ApplyRequest, value: IndexValue) -> ApplyResult:
        async def put_value(rows: Rows) -> None:
            await self._store.put(value, (), rows)

        if not await self._gate.is_open():
            await self._finish(request, put_value)  # a frozen indexer fetches no entries (IPN-2)
            return ApplyResult(AdKind.METADATA)
        self._provider_after(request, is_frozen=False)  # reject an unusable provider before fetching its entries
        # After a restart the entries continue at the block where they stopped.
        progress = await self._sync_state.progress(request.publisher.id, request.cid)
        progress = progress or EntriesProgress(request.cid, request.ad.provider, (request.ad.entries,))
        # Closed explicitly: leaving the loop at a freeze must stop the fetches ahead at once, not when the generator is
        # collected.
        async with aclosing(_steps(self._entries.read(request.source, progress))) as steps:
            async for step in steps:
                if isinstance(step, str):
                    await self._finish(request, put_value, error=step)
                    return ApplyResult(AdKind.CONTENT, step)
                # The gate is checked for every batch: storetheindex reads its frozen flag once per sync and keeps
                # storing.
                if not await self._store_step(request, value, step, progress):
                    await self._finish(request, put_value)
                    return ApplyResult(AdKind.METADATA)
                progress = advance(progress, step)
                request.on_stored(step)
        return ApplyResult(AdKind.CONTENT)

    async def _store_step(
        self, request: ApplyRequest, value: IndexValue, step: EntryBatch, progress: EntriesProgress
    ) -> bool:
        """Stores one batch; returns False, storing nothing, if the indexer froze in the meantime."""
        async with self._gate.admit() as is_open:
            if not is_open:
                return False
            # Computed inside the gate and for every batch: the record may have changed while the entries were fetched.
            provider = self._provider_after(request, is_frozen=False)
            if step.left:  # more batches follow: the cursor stays, and only the progress is recorded
                rows: Change = {
                    keys.progress(request.publisher.id): pack(advance(progress, step)),
                    **provider_row(provider),
                }
                await self._store.put(value, step.multihashes, rows)
                self._provider_table.apply(provider)
            else:
                await self._close(
                    request, provider, lambda rows: self._store.put(value, step.multihashes, rows), is_frozen=False
                )
            return True

    async def _finish(
        self, request: ApplyRequest, store: Callable[[Rows], Awaitable[None]], *, error: str = ""
    ) -> None:
        async with self._gate.admit() as is_open:
            try:
                provider = self._provider_after(request, is_frozen=not is_open)
            except UnknownWhileFrozen:
                # The chain continues, because later removals must be applied (IPN-2); unfreezing returns to this
                # advertisement.
                cursor, rows = self._completion(request, is_frozen=True)
                await self._store.write(rows)
                self._sync_state.apply(cursor)
                return
            await self._close(request, provider, store, is_frozen=not is_open, error=error)

    async def _close(
        self,
        request: ApplyRequest,
        provider: Provider,
        store: Callable[[Rows], Awaitable[None]],
        *,
        is_frozen: bool,
        error: str = "",
    ) -> None:
        """Writes the last batch of an advertisement, which also moves the cursor."""
        provider = with_applied(provider, request.cid, self._wall(), error=error)
        # IPN-3: cursor, mark and data are in one batch, and memory follows the disk.
        cursor, rows = self._completion(request, is_frozen=is_frozen)
        await store({**rows, **provider_row(provider)})
        self._sync_state.apply(cursor)
        self._provider_table.apply(provider)

    def _completion(self, request: ApplyRequest, *, is_frozen: bool) -> tuple[ChainCursor, Change]:
        return self._sync_state.complete(
            request.publisher.id, request.cid, request.ad.provider, is_frozen=is_frozen, is_refill=request.is_refill
        )

    def _provider_after(self, request: ApplyRequest, *, is_frozen: bool) -> Provider:
        return self._provider_table.provider_after(
            request.ad, request.publisher, addresses=request.addresses, lag=request.lag, is_frozen=is_frozen
        )


def advance(progress: EntriesProgress, step: EntryBatch) -> EntriesProgress:
    return EntriesProgress(
        progress.ad,
        progress.provider,
        step.left,
        blocks=progress.blocks + step.blocks,
        multihashes=progress.multihashes + len(step.multihashes),
        is_hamt=step.is_hamt,
    )


async def _steps(read: AsyncGenerator[EntryBatch]) -> AsyncGenerator[EntryBatch | str]:
    """Yields the batches; ends with the reason as text if the publisher cannot supply more.

    Only errors of reading are converted. The same kinds raised by the store must not skip the advertisement.
    """
    try:
        async with aclosing(read):
            async for step in read:
                yield step
    # storetheindex issue 796: entries that a publisher no longer had blocked its whole chain.
    except (Invalid, NotFound) as error:
        yield str(error)
