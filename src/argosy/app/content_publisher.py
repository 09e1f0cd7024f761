"""The content publisher of a search node: an advertisement for each loaded index, in a chain on disk.

The context of an advertisement is `repository@commit`, its entries are the multihashes of the repository's files. The
node reports a loaded or dropped index and goes on at once; one task hashes the files in a thread and publishes.
Only the newest report of each repository is queued, so the queue is never longer than the list of loaded indexes. The
chain outlives a restart: what it advertises from an earlier run, and the node has not indexed again after `SETTLE_S`,
is removed.

All of it is served on the node's own port: `/ipni/v1/ad/…` for indexers that read the chain, and `/ipfs/{cid}` for
clients that an indexer has sent here for a file.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from string import hexdigits
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from argosy.app.process import Process
from argosy.base import logs
from argosy.base.clock import Clock, Random, SystemClock, system_random
from argosy.base.errors import ArgosyError, Invalid, NotFound, Unauthorized
from argosy.base.metrics import Metrics, counter, gauge
from argosy.base.retry import Backoff
from argosy.ipni.formats import advertisement as adverts
from argosy.ipni.formats import cid as cids
from argosy.ipni.formats import metadata, multiaddr
from argosy.ipni.formats.cid import RAW
from argosy.ipni.formats.metadata import Label, encode_label
from argosy.ipni.formats.multihash import SHA2_256, split, wrap
from argosy.ipni.publish.backends.key_file import open_key
from argosy.ipni.publish.backends.sqlite import SqliteChain
from argosy.ipni.publish.head_announcer import AnnounceClient, AnnounceResult, HeadAnnouncer
from argosy.ipni.publish.http import IMMUTABLE, publisher_routes
from argosy.ipni.publish.ports import context_of, context_prefix
from argosy.ipni.publish.publisher import Publisher
from argosy.search.content_digests import DIGEST_BYTES, DigestMatch, HashingStopped, IndexDigests, hash_contents
from argosy.search.index.index import Index
from argosy.search.settings import SearchSettings

KEY_FILE = "key"  # in search.advertise_dir, the publisher's identity
FILE_READS_MAX = 16  # files looked up and sent at a time: each is a copy in memory, of 2 MiB by default
SETTLE_S = 120.0  # after a start, what was indexed before should be indexed again by then
RETRY = Backoff(first_s=1.0, ceiling_s=60.0)
COMMIT_CHARS = 11
DIGEST_CHARS = 8  # with the commit and a point this fills a context to its limit

ADS = counter(
    "argosy_content_ads", "Advertisements of repositories by outcome: published, removed, failed", ("outcome",)
)
ADS_WAITING = gauge("argosy_content_ads_waiting", "Loaded or dropped indexes whose advertisement is not published yet")
ADVERTISED = gauge("argosy_content_ads_repositories", "Repositories whose files this node advertises")
ANNOUNCED = counter(
    "argosy_content_ads_announced", "Chain heads announced to indexers and assigners: accepted, failed", ("outcome",)
)

# Computed once: a repository has thousands of multihashes with the same head.
_MULTIHASH_HEAD = wrap(SHA2_256, bytes(DIGEST_BYTES))[:-DIGEST_BYTES]

log = logs.get("app")


async def open_content_publisher(process: Process) -> "ContentPublisher":
    """Opens the publisher that the settings describe and adds its tasks and routes to the process."""
    settings = process.loaded.get(SearchSettings)
    folder, addresses = Path(settings.advertise_dir), [multiaddr.from_url(f"http://{process.this.address}")]
    key = await asyncio.to_thread(open_key, folder / KEY_FILE)
    chain = await SqliteChain.open(folder / "chain.sqlite")
    process.closing.push_async_callback(chain.close)
    publisher = await Publisher.open(key, chain, addresses=addresses)
    content = ContentPublisher(
        publisher, addresses, clock=SystemClock(), random=system_random(), metrics=process.metrics
    )
    process.tasks.append(content.run())
    if settings.announce_urls:
        announcer = AnnounceClient(settings.announce_urls, clock=SystemClock(), random=system_random())
        process.closing.push_async_callback(announcer.close)
        record = partial(_record_announcement, process.metrics)
        head_announcer = HeadAnnouncer(
            publisher, announcer, addresses, clock=SystemClock(), repeat_s=settings.announce_s, on_result=record
        )
        process.tasks.append(head_announcer.run())
    process.routes += [*publisher_routes(publisher), files_route(content, fleet_token=process.this.fleet_token)]
    log.info("content publisher started", publisher=publisher.id, announce_urls=len(settings.announce_urls))
    return content


def _record_announcement(metrics: Metrics, result: AnnounceResult) -> None:
    metrics.inc(ANNOUNCED, outcome="accepted" if result.error is None else "failed")
    if result.error is not None:
        log.warning("announcement failed", url=result.url, error=str(result.error))


class ContentPublisher:
    """`search.ports.Advertiser` over a publisher. `addresses` are the multiaddrs that serve files by their hash."""

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
        self._queue: dict[str, Index | None] = {}  # by repository; None: its index was dropped
        self._has_work = asyncio.Event()
        self._chain_lock = asyncio.Lock()  # held from the first read of the chain to the end of the change
        self._holdings: dict[str, IndexDigests] = {}
        self._failures = 0
        self._is_over = False

    def on_indexed(self, index: Index) -> None:
        self._enqueue(index.repository.name, index)

    def on_dropped(self, name: str) -> None:
        self._holdings.pop(name, None)  # at once, because the index is dropped to free its memory
        self._enqueue(name, None)

    def _enqueue(self, name: str, index: Index | None) -> None:
        self._queue[name] = index
        self._has_work.set()
        self._record_sizes()

    def find(self, digest: bytes) -> DigestMatch | None:
        """A file of a loaded index, by the sha2-256 of its content. Slow: call it in a thread."""
        # A copy: this runs in a thread, while the event loop adds and removes entries.
        for holding in list(self._holdings.values()):
            if (found := holding.find(digest)) is not None:
                return found
        return None

    async def run(self) -> None:
        """Publishes until it is cancelled."""
        try:
            while not await self._try_change("addresses", self._update_addresses):
                pass
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._drain_queue())
                tasks.create_task(self._remove_stale_later())
        finally:
            self._is_over = True

    async def _drain_queue(self) -> None:
        while True:
            while not self._queue:
                self._has_work.clear()
                await self._has_work.wait()
            name, index = next(iter(self._queue.items()))
            del self._queue[name]
            change = partial(self._withdraw, name) if index is None else partial(self._advertise, name, index)
            if not await self._try_change(name, change):
                self._queue.setdefault(name, index)  # behind the others, unless there is a newer report
            self._record_sizes()

    async def _remove_stale_later(self) -> None:
        await self._clock.sleep(self._settle_s)
        while not await self._try_change("stale advertisements", self._remove_stale):
            pass
        await asyncio.Event().wait()

    async def _try_change(self, target: str, change: Callable[[], Awaitable[None]]) -> bool:
        """Changes the chain under its lock. A failure is logged and retried: a node serves searches without it."""
        try:
            async with self._chain_lock:
                await change()
        except HashingStopped:
            return True  # superseded by a newer report
        # Any exception: a node serves searches without its advertisements, so nothing here may end the process.
        except Exception as error:
            self._failures += 1
            self._metrics.inc(ADS, outcome="failed")
            is_expected = isinstance(error, ArgosyError | OSError)
            log.warning(
                "advertisement failed", target=target, error=str(error), exc_info=False if is_expected else error
            )
            await self._clock.sleep(RETRY.delay(self._failures, self._random))
            return False
        self._failures = 0
        return True

    async def _update_addresses(self) -> None:
        """Publishes changed addresses, so that indexers that have read the chain learn them without another change."""
        head = self._publisher.head
        block = None if head is None else await self._publisher.block(head)
        if head is not None and block is not None and list(adverts.decode(head, block).addresses) != self._addresses:
            await self._publisher.update_addresses(self._addresses)

    async def _advertise(self, name: str, index: Index) -> None:
        holding, multihashes = await asyncio.to_thread(
            _hash_files, index, self._holdings.get(name), lambda: self._is_over or name in self._queue
        )
        # A newer report arrived while the files were hashed; publishing this one would advertise an old commit.
        if name in self._queue:
            raise HashingStopped
        self._holdings[name] = holding
        label = Label(name, _commit(index))
        context = _context(label, multihashes)
        before = {published.context for published in await self._publisher.list_contexts(context_prefix(name))}
        if multihashes and context not in before:
            encoded = metadata.join(metadata.http(), encode_label(label))
            # One change of the chain for both: between two of them the repository would not be findable.
            await self._publisher.publish(context, encoded, multihashes, supersedes=sorted(before))
            self._metrics.inc(ADS, outcome="published")
            log.info("repository advertised", repository=name, commit=label.version, files=len(multihashes))
        else:
            await self._remove(name, before - {context} if multihashes else before)

    async def _withdraw(self, name: str) -> None:
        await self._remove(
            name, {published.context for published in await self._publisher.list_contexts(context_prefix(name))}
        )

    async def _remove(self, name: str, contexts: set[bytes]) -> None:
        for context in sorted(contexts):
            await self._publisher.remove(context)
            self._metrics.inc(ADS, outcome="removed")
            log.info("advertisement removed", repository=name, context=context.decode("utf-8", "replace"))

    async def _remove_stale(self) -> None:
        """Removes advertisements of an earlier run whose repository is neither loaded nor queued."""
        queued = {name for name, index in self._queue.items() if index is not None}
        current = {context_prefix(name) for name in queued | self._holdings.keys()}
        for published in await self._publisher.list_contexts():
            # The last one: names of repositories may contain it, commits and hashes do not.
            name, sign, _ = published.context.rpartition(b"@")
            if name + sign not in current:
                await self._remove(name.decode("utf-8", "replace"), {published.context})

    def _record_sizes(self) -> None:
        self._metrics.set(ADS_WAITING, len(self._queue))
        self._metrics.set(ADVERTISED, len(self._holdings))


def _hash_files(
    index: Index, previous: IndexDigests | None, is_stopped: Callable[[], bool]
) -> tuple[IndexDigests, list[bytes]]:
    """The digests of an index, and their multihashes, each once and sorted."""
    holding = hash_contents(index, previous, is_stopped)
    rows = holding.rows().tobytes()
    return holding, [_MULTIHASH_HEAD + rows[at : at + DIGEST_BYTES] for at in range(0, len(rows), DIGEST_BYTES)]


def _commit(index: Index) -> str:
    """The commit of the first branch; empty for a directory, whose fingerprint may change without its content."""
    version = next((branch.version for branch in index.repository.branches), "")
    return version if set(version) <= set(hexdigits) else ""


def _context(label: Label, multihashes: list[bytes]) -> bytes:
    """Names commit and content, because other settings can index other files of the same commit."""
    digest = sha256(b"".join(multihashes)).hexdigest()
    commit = label.version[:COMMIT_CHARS]
    return context_of(label.name, f"{commit}.{digest[:DIGEST_CHARS]}" if commit else digest)


def files_route(content: ContentPublisher, *, fleet_token: str | None = None) -> Route:
    """`/ipfs/{cid}`: files as raw blocks, as a trustless gateway serves them: the client can verify what it receives.

    With a fleet token only its holders are served: the hash of every file is public in the chain.
    """
    # The bound is on memory, not on CPU: each read holds a whole file.
    reads = asyncio.Semaphore(FILE_READS_MAX)
    expected = f"Bearer {fleet_token}".encode() if fleet_token else None

    async def file(request: Request) -> Response:
        if expected is not None and not hmac.compare_digest(
            request.headers.get("authorization", "").encode("latin-1"), expected
        ):
            raise Unauthorized("missing or wrong fleet token; send the header 'authorization: Bearer <fleet token>'")
        cid = cids.parse(request.path_params["cid"])
        code, digest = split(cid.multihash)
        if cid.codec != RAW or code != SHA2_256:
            raise Invalid(f"unsupported CID {cid}: pass a raw CID with a sha2-256 hash; see argosy find")
        # A CID names its content, so the response never changes.
        headers = {"etag": f'"{cid}.raw"', "cache-control": IMMUTABLE, "x-content-type-options": "nosniff"}
        if headers["etag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        async with reads:
            found = await asyncio.to_thread(content.find, digest)
        if found is None:
            raise NotFound(f"file {cid} not found on this node; ask an indexer which node has it")
        name = quote(found.path.rpartition("/")[2].encode("utf-8", "surrogateescape"))
        path = quote(f"{found.repository}/{found.path}".encode("utf-8", "surrogateescape"))
        headers |= {"content-disposition": f"attachment; filename*=UTF-8''{name}", "x-argosy-file": path}
        return Response(found.content, headers=headers, media_type="application/vnd.ipld.raw")

    return Route("/ipfs/{cid}", file)
