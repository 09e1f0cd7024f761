"""What a search node holds, told to the content index: a context `repository@commit` for each, in a chain on disk.

The node says what it has indexed and dropped, and goes on at once; one task here hashes, in a thread, and publishes.
Of each repository only the newest word waits, so the queue is never longer than what the node holds. The chain goes on
over restarts: what it still offers from before, and the node has not indexed again when things have settled, is taken
back.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from hashlib import sha256
from string import hexdigits

from argosy.app import metrics as counted
from argosy.base import logs
from argosy.base.clock import Clock, Random
from argosy.base.errors import ArgosyError
from argosy.base.metrics import Metrics
from argosy.base.retry import Backoff
from argosy.ipni.formats import advertisement as adverts
from argosy.ipni.formats import metadata
from argosy.ipni.formats.multihash import SHA2_256, wrap
from argosy.ipni.publish import labels
from argosy.ipni.publish.contexts import beginning_of, context_of
from argosy.ipni.publish.labels import Label
from argosy.ipni.publish.service import Publisher
from argosy.search.digests import DIGEST_BYTES, Found, Holding, Stopped, holding_of
from argosy.search.index.index import Index

SETTLE_S = 120.0  # after a start, what was indexed before should be indexed again by then
RETRY = Backoff(first_s=1.0, ceiling_s=60.0)
COMMIT_CHARS = 11
DIGEST_CHARS = 8  # together with the commit and a point: what a context has room for

_MULTIHASH_HEAD = wrap(SHA2_256, bytes(DIGEST_BYTES))[:-DIGEST_BYTES]

log = logs.get("app.adverts")


class Adverts:
    """`search.ports.Advertiser` over a publisher. `addresses`: multiaddrs at which files can be had by their hash."""

    def __init__(
        self,
        publisher: Publisher,
        addresses: list[str],
        *,
        clock: Clock,
        random: Random,
        metrics: Metrics,
        settle_s: float = SETTLE_S,
    ) -> None:
        self._publisher = publisher
        self._addresses = addresses
        self._clock = clock
        self._random = random
        self._metrics = metrics
        self._settle_s = settle_s
        self._waiting: dict[str, Index | None] = {}  # by repository; None: it was dropped
        self._news = asyncio.Event()
        self._turn = asyncio.Lock()  # one change of the chain at a time, from its first look on
        self._holdings: dict[str, Holding] = {}
        self._failures = 0
        self._is_over = False

    def indexed(self, index: Index) -> None:
        self._heard(index.repository.name, index)

    def dropped(self, name: str) -> None:
        self._holdings.pop(name, None)  # its memory is wanted now
        self._heard(name, None)

    def _heard(self, name: str, index: Index | None) -> None:
        self._waiting[name] = index
        self._news.set()
        self._count()

    def find(self, digest: bytes) -> Found | None:
        """A file that the node holds, by the sha2-256 of its content. Takes a while: call it in a thread."""
        for holding in list(self._holdings.values()):
            if (found := holding.find(digest)) is not None:
                return found
        return None

    async def run(self) -> None:
        """Publishes until it is cancelled."""
        try:
            while not await self._did("addresses", self._move):
                pass
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._work())
                tasks.create_task(self._settle())
        finally:
            self._is_over = True

    async def _work(self) -> None:
        while True:
            while not self._waiting:
                self._news.clear()
                await self._news.wait()
            name, index = next(iter(self._waiting.items()))
            del self._waiting[name]
            change = partial(self._withdraw, name) if index is None else partial(self._advertise, name, index)
            if not await self._did(name, change):
                self._waiting.setdefault(name, index)  # after the others, unless there is newer word
            self._count()

    async def _settle(self) -> None:
        await self._clock.sleep(self._settle_s)
        while not await self._did("what was held before", self._take_back):
            pass
        await asyncio.Event().wait()

    async def _did(self, what: str, change: Callable[[], Awaitable[None]]) -> bool:
        """Makes a change of the chain in its turn. What goes wrong is told, and is no reason to stop serving."""
        try:
            async with self._turn:
                await change()
        except Stopped:
            return True  # there is newer word
        except Exception as why:
            self._failures += 1
            self._metrics.inc(counted.ADVERTS, outcome="failed")
            is_foreseen = isinstance(why, ArgosyError | OSError)
            log.warning("not advertised", what=what, why=str(why), exc_info=False if is_foreseen else why)
            await self._clock.sleep(RETRY.delay(self._failures, self._random))
            return False
        self._failures = 0
        return True

    async def _move(self) -> None:
        """Who has read the chain is told of new addresses, even if nothing else changes."""
        head = self._publisher.head
        block = None if head is None else await self._publisher.block(head)
        if head is not None and block is not None and list(adverts.decode(head, block).addresses) != self._addresses:
            await self._publisher.update_addresses(self._addresses)

    async def _advertise(self, name: str, index: Index) -> None:
        holding, multihashes = await asyncio.to_thread(
            _hashed, index, self._holdings.get(name), lambda: self._is_over or name in self._waiting
        )
        if name in self._waiting:
            raise Stopped
        self._holdings[name] = holding
        label = Label(name, _commit(index))
        context = _context(label, multihashes)
        before = {offer.context for offer in await self._publisher.offers(beginning_of(name))}
        if multihashes and context not in before:
            said = metadata.join(metadata.http(), labels.encode(label))
            await self._publisher.publish(context, said, multihashes, supersedes=sorted(before))
            self._metrics.inc(counted.ADVERTS, outcome="published")
            log.info("advertised", repository=name, commit=label.version, files=len(multihashes))
        else:
            await self._remove(name, before - {context} if multihashes else before)

    async def _withdraw(self, name: str) -> None:
        await self._remove(name, {offer.context for offer in await self._publisher.offers(beginning_of(name))})

    async def _remove(self, name: str, contexts: set[bytes]) -> None:
        for context in sorted(contexts):
            await self._publisher.remove(context)
            self._metrics.inc(counted.ADVERTS, outcome="removed")
            log.info("no longer advertised", repository=name, context=context.decode("utf-8", "replace"))

    async def _take_back(self) -> None:
        """What the chain offers from before, and is not held or about to be told of."""
        coming = {name for name, index in self._waiting.items() if index is not None}
        held = {beginning_of(name) for name in coming | self._holdings.keys()}
        for offer in await self._publisher.offers():
            name, sign, _ = offer.context.rpartition(b"@")
            if name + sign not in held:
                await self._remove(name.decode("utf-8", "replace"), {offer.context})

    def _count(self) -> None:
        self._metrics.set(counted.ADVERTS_WAITING, len(self._waiting))
        self._metrics.set(counted.ADVERTISED, len(self._holdings))


def _hashed(index: Index, previous: Holding | None, is_stopped: Callable[[], bool]) -> tuple[Holding, list[bytes]]:
    """What an index holds, and the multihashes of it, each once and in order."""
    holding = holding_of(index, previous, is_stopped)
    rows = holding.rows().tobytes()
    return holding, [_MULTIHASH_HEAD + rows[at : at + DIGEST_BYTES] for at in range(0, len(rows), DIGEST_BYTES)]


def _commit(index: Index) -> str:
    """Where the first branch stands. A folder has a fingerprint instead, which changes without its content."""
    version = next((branch.version for branch in index.repository.branches), "")
    return version if set(version) <= set(hexdigits) else ""


def _context(label: Label, multihashes: list[bytes]) -> bytes:
    """Of a commit and its content together: what is indexed of a commit may change with the settings."""
    digest = sha256(b"".join(multihashes)).hexdigest()
    commit = label.version[:COMMIT_CHARS]
    return context_of(label.name, f"{commit}.{digest[:DIGEST_CHARS]}" if commit else digest)
