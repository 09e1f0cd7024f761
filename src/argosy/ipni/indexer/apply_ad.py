"""Applying one advertisement: what it says about a provider, then what it says about content.

The last batch of an advertisement's data also moves the publisher's course and marks the advertisement, so each is
applied once and in order, whatever crashes (IPN-3). Every batch passes the gate: while the indexer is frozen nothing is
stored but metadata, removals and what concerns providers (IPN-2).

What is wrong with the advertisement itself (Invalid) and entries that its publisher does not have (NotFound) are given
up for good, else one bad link would hold the chain for ever. Any other error passes: the chain stops
and is tried again.
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
from argosy.ipni.indexer.provider_table import UnknownWhileFrozen, provider_row, with_applied
from argosy.ipni.indexer.shared_state import SharedState
from argosy.ipni.indexer.sync_state import ChainCursor, Change, EntriesProgress, EntryBatch, pack
from argosy.ipni.model import IndexValue, Peer, Provider
from argosy.ipni.ports import PublisherSource, Rows


class AdKind(StrEnum):
    """What an advertisement does, by its shape."""

    REMOVAL = "removal"
    ADDRESSES = "addresses"
    METADATA = "metadata"
    CONTENT = "content"


class WriteGate(Protocol):
    """Through which everything that is stored must pass; `True` inside means that it is open for entries."""

    def admit(self) -> AbstractAsyncContextManager[bool]: ...

    async def is_open(self) -> bool: ...


class EntriesReader(Protocol):
    def read(self, source: PublisherSource, progress: EntriesProgress) -> AsyncGenerator[EntryBatch]:
        """The entries from there on; Invalid and NotFound as `Source` has them."""
        ...


@dataclass(frozen=True)
class ApplyRequest:
    """One advertisement to be applied."""

    cid: Cid
    ad: Advertisement
    publisher: Peer
    source: PublisherSource
    addresses: Sequence[str] = ()  # the provider's newest, of advertisements that follow
    is_superseded: bool = False  # a removal that follows takes away all it would add
    is_refill: bool = False  # newer ones have been applied already
    lag: int = 0  # how many follow
    on_stored: Callable[[EntryBatch], None] = field(default=lambda step: None)


@dataclass(frozen=True)
class ApplyResult:
    kind: AdKind | None
    error: str = ""  # why it was given up for good


def kind_of(ad: Advertisement, *, is_superseded: bool = False) -> AdKind:
    if ad.is_removal:
        return AdKind.REMOVAL
    if is_superseded:
        return AdKind.ADDRESSES
    if not ad.metadata:
        if ad.entries != NO_ENTRIES:
            raise Invalid("the advertisement has entries and no metadata")
        return AdKind.ADDRESSES
    return AdKind.METADATA if ad.entries == NO_ENTRIES else AdKind.CONTENT


class Applier:
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
            await self._finish(request, put_value)  # a frozen indexer never fetches entries
            return ApplyResult(AdKind.METADATA)
        self._provider_after(request, is_frozen=False)  # a provider that cannot be taken costs no fetching
        progress = await self._sync_state.progress(request.publisher.id, request.cid)
        progress = progress or EntriesProgress(request.cid, request.ad.provider, (request.ad.entries,))
        async with aclosing(_steps(self._entries.read(request.source, progress))) as steps:
            async for step in steps:
                if isinstance(step, str):
                    await self._finish(request, put_value, error=step)
                    return ApplyResult(AdKind.CONTENT, step)
                if not await self._store_step(request, value, step, progress):
                    await self._finish(request, put_value)
                    return ApplyResult(AdKind.METADATA)
                progress = advance(progress, step)
                request.on_stored(step)
        return ApplyResult(AdKind.CONTENT)

    async def _store_step(
        self, request: ApplyRequest, value: IndexValue, step: EntryBatch, progress: EntriesProgress
    ) -> bool:
        """False if the indexer has frozen meanwhile: the step is not stored."""
        async with self._gate.admit() as is_open:
            if not is_open:
                return False
            provider = self._provider_after(request, is_frozen=False)
            if step.left:
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
                # The chain goes on, for removals that follow must be honoured (IPN-2); unfreezing comes back to it.
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
        """The last batch of an advertisement: with it the course moves."""
        provider = with_applied(provider, request.cid, self._wall(), error=error)
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
    """The steps; one that will never come ends them with the reason as text, so that it is not taken for an error
    of the store."""
    try:
        async with aclosing(read):
            async for step in read:
                yield step
    except (Invalid, NotFound) as error:
        yield str(error)
