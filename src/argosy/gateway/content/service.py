"""The content gateway: sends a find to every indexer and merges the answers.

    gateway = ContentGateway([Backend.at("http://10.0.0.1:3000"), Backend.at("http://10.0.0.2:3000")])
    answer = await gateway.find([multihash])

An answer names the indexers missing from it (GW-1). Complete answers are cached briefly, misses more briefly than
results, because a new advertisement should be findable soon. Identical concurrent finds are one.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeAlias, TypeVar

from argosy.base.cache import Cache
from argosy.base.clock import Clock, Random, SystemClock, system_random
from argosy.base.metrics import Metrics
from argosy.base.shared_calls import SingleFlight
from argosy.base.tracing import NO_TRACER, Tracer
from argosy.gateway.content import backend_protocol, merge
from argosy.gateway.content.backend_protocol import ParsedReply
from argosy.gateway.content.dispatcher import ContentDispatcher
from argosy.gateway.content.find_stream import CachedStream, FindStream
from argosy.gateway.content.http1_client import Http1Client
from argosy.gateway.content.model import Backend, MergedAnswer, MissingBackend
from argosy.gateway.content.telemetry import ContentTelemetry
from argosy.gateway.settings import ContentSettings
from argosy.ipni.model import Provider, ProviderResult
from argosy.ipni.web import providers_json
from argosy.ipni.web.find_fast_path import RESULTS_MAX
from argosy.ipni.web.lookup_params import ResponseFormat
from argosy.ipni.web.results import Found

T = TypeVar("T")

AnswerCache: TypeAlias = Cache[Hashable, MergedAnswer[Any]]

RECORD_BYTES = 600  # approximate overhead of the Python objects of a record
SET_BYTES = 300


class ContentGateway:
    """Finds over many indexers. Bound to the event loop of first use; call `close`."""

    def __init__(
        self,
        backends: Sequence[Backend] = (),
        settings: ContentSettings | None = None,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        client: Http1Client | None = None,
        metrics: Metrics | None = None,
        tracer: Tracer = NO_TRACER,
    ) -> None:
        self.settings = settings = settings or ContentSettings()
        self.backends: tuple[Backend, ...] = ()
        self.plain: tuple[Backend, ...] = ()  # indexers not restricted to second hashes
        self.telemetry = ContentTelemetry(metrics or Metrics())
        self._clock = clock or SystemClock()
        self._tracer = tracer
        self._dispatcher = ContentDispatcher(
            settings,
            client or Http1Client(connect_s=settings.connect_s),
            self.telemetry,
            clock=self._clock,
            random=random or system_random(),
        )
        # By kind of request and its key, such as ("find", multihash); the kind decides the type of the answer.
        self._cache: AnswerCache = AnswerCache(entries_max=settings.cache_entries, bytes_max=settings.cache_bytes)
        # One find for all identical ones in progress: popular content is requested many times at once.
        self._finds_in_flight: SingleFlight[Any] = SingleFlight()
        self.replace(backends)

    def replace(self, backends: Sequence[Backend]) -> None:
        """Replace the list of indexers; the state of those that stay is kept."""
        by_name: dict[str, Backend] = {}
        for backend in backends:
            by_name.setdefault(backend.name, backend)
        wanted = tuple(by_name.values())
        # A pool file that was rewritten without a change must not clear the cache.
        if wanted != self.backends:
            self.backends = wanted
            self.plain = tuple(each for each in wanted if not each.is_for_second_hashes)
            self._cache.clear()  # a cached miss may be wrong with another indexer
            self._dispatcher.retain_only(wanted)
            self.telemetry.record_backends(wanted)

    async def close(self) -> None:
        await self._dispatcher.close()

    # -- requests -----------------------------------------------------------------------------------------------------

    async def find(self, multihashes: Sequence[bytes], surface: str = "find") -> MergedAnswer[list[Found]]:
        """Results by multihash in request order; a multihash without results has an empty list."""
        started = self._clock.now()
        found: dict[bytes, Sequence[ProviderResult]] = {}
        for each in multihashes:
            if (cached := self._cache.get(("find", each), started)) is not None:
                found[each] = cached.found
        rest = tuple(dict.fromkeys(each for each in multihashes if each not in found))
        missing: tuple[MissingBackend, ...] = ()
        total = None
        if rest:
            answer: MergedAnswer[list[Found]] = await self._share(("find", rest), lambda: self._gather_found(rest))
            found |= dict(answer.found)
            missing, total = answer.missing, answer.total
        else:
            self.telemetry.record_source("cache")
        self._record_find(surface, started, missing, is_found=any(found.values()))
        return MergedAnswer([(each, found[each]) for each in dict.fromkeys(multihashes)], missing, total)

    @asynccontextmanager
    async def stream(self, multihash: bytes, surface: str = "find") -> AsyncIterator[FindStream | CachedStream]:
        """Stream results as they arrive."""
        started = self._clock.now()
        if (cached := self._cache.get(("find", multihash), started)) is not None:
            self.telemetry.record_source("cache")
            self._record_find(surface, started, (), is_found=bool(cached.found))
            yield CachedStream(cached.found)
            return
        self.telemetry.record_source("backends")
        request = backend_protocol.find([multihash], ResponseFormat.LINES, self._tracer.inject())
        with self._dispatcher.open_stream(self.plain, request, multihash) as stream:
            try:
                yield stream
            finally:
                await stream.close()
        self._record_find(surface, started, stream.missing, is_found=stream.has_found)
        if stream.is_whole and stream.total is None and stream.cacheable is not None:
            # Merged in the operator's order, as for JSON: one cached answer serves both formats.
            parts = [stream.cacheable[each.name] for each in self.backends if each.name in stream.cacheable]
            self._store_found(multihash, MergedAnswer(merge.merge_results(parts), stream.missing))

    async def find_encrypted(self, second_hash: bytes, surface: str = "encrypted") -> MergedAnswer[list[bytes]]:
        """The encrypted value keys under a second hash."""

        async def gather() -> MergedAnswer[list[bytes]]:
            request = backend_protocol.find_encrypted(second_hash, self._tracer.inject())
            read = partial(backend_protocol.read_keys, second_hash=second_hash)
            replies, missing = await self._dispatcher.gather(self.backends, request, read)
            keys = merge.merge_keys(each.value for each in replies)
            return MergedAnswer(keys[:RESULTS_MAX], missing, _total(replies, len(keys)))

        return await self._lookup(("encrypted", second_hash), surface, gather, keys_bytes)

    async def metadata(self, value_key_hash: bytes, surface: str = "metadata") -> MergedAnswer[bytes]:
        """Encrypted metadata from the first indexer that has it; empty if none has."""

        async def gather() -> MergedAnswer[bytes]:
            request = backend_protocol.metadata(value_key_hash, self._tracer.inject())
            replies, missing = await self._dispatcher.gather(
                self.backends, request, backend_protocol.read_metadata, is_one_enough=True
            )
            return MergedAnswer(next((each.value for each in replies if each.value), b""), missing)

        return await self._lookup(("metadata", value_key_hash), surface, gather, len)

    async def providers(self, surface: str = "providers") -> MergedAnswer[list[Provider]]:
        """The providers of all indexers, each from the indexer that is furthest along its chain."""

        async def gather() -> MergedAnswer[list[Provider]]:
            request = backend_protocol.providers(self._tracer.inject())
            read = partial(backend_protocol.read_providers, decode=_decode_in_thread)
            replies, missing = await self._dispatcher.gather(self.plain, request, read)
            return MergedAnswer(merge.merge_providers(each.value for each in replies), missing)

        hit_s = self.settings.providers_s
        return await self._lookup(("providers",), surface, gather, providers_bytes, hit_s=hit_s)

    async def provider(self, id: str, surface: str = "provider") -> MergedAnswer[Provider | None]:
        """One provider; None if no indexer knows it."""

        async def gather() -> MergedAnswer[Provider | None]:
            request = backend_protocol.provider(id, self._tracer.inject())
            read = partial(backend_protocol.read_provider, id=id)
            replies, missing = await self._dispatcher.gather(self.plain, request, read)
            return MergedAnswer(merge.newest(each for reply in replies for each in reply.value), missing)

        return await self._lookup(("provider", id), surface, gather, lambda found: providers_bytes([found]))

    # -- caching and metrics ------------------------------------------------------------------------------------------

    async def _gather_found(self, multihashes: tuple[bytes, ...]) -> MergedAnswer[list[Found]]:
        request = backend_protocol.find(multihashes, ResponseFormat.JSON, self._tracer.inject())
        read = partial(backend_protocol.read_found, requested=multihashes)

        # Until every multihash of a batch is found, no indexer is late: a slow one may have what is still lacking.
        def is_found(replies: Iterable[ParsedReply[backend_protocol.ByMultihash]]) -> bool:
            known = {each for reply in replies for each, results in reply.value.items() if results}
            return known.issuperset(multihashes)

        replies, missing = await self._dispatcher.gather(self.plain, request, read, is_found=is_found)
        found: list[Found] = []
        # The limit holds for the whole answer, not for each multihash.
        capacity, count = RESULTS_MAX, 0
        for multihash in multihashes:
            merged = merge.merge_results([part for each in replies if (part := each.value.get(multihash))])
            count += len(merged)
            found.append((multihash, merged[:capacity]))
            capacity -= len(found[-1][1])
        total = _total(replies, count)
        if total is None:  # a truncated answer lacks results that a find of one of its multihashes would have
            for multihash, results in found:
                self._store_found(multihash, MergedAnswer(results, missing))
        return MergedAnswer(found, missing, total)

    async def _lookup(
        self,
        key: tuple[object, ...],
        surface: str,
        gather: Callable[[], Coroutine[Any, Any, MergedAnswer[T]]],
        weigh: Callable[[Any], int],
        *,
        hit_s: float | None = None,
    ) -> MergedAnswer[T]:
        """The cached answer, or what `gather` returns, which is cached then."""
        started = self._clock.now()

        async def gather_and_store() -> MergedAnswer[T]:
            answer = await gather()
            ttl_s = (self.settings.hit_s if hit_s is None else hit_s) if answer.found else self.settings.miss_s
            size_bytes = weigh(answer.found) if answer.found else 0
            # Stored by the shared call, so once for all its callers, also if the first of them has left.
            store_answer(self._cache, key, answer, size_bytes=size_bytes, ttl_s=ttl_s, now=self._clock.now())
            return answer

        answer: MergedAnswer[T] | None = self._cache.get(key, started)
        if answer is None:
            answer = await self._share(key, gather_and_store)
        else:
            self.telemetry.record_source("cache")
        self._record_find(surface, started, answer.missing, is_found=bool(answer.found))
        return answer

    async def _share(
        self, key: tuple[object, ...], start: Callable[[], Coroutine[Any, Any, MergedAnswer[T]]]
    ) -> MergedAnswer[T]:
        self.telemetry.record_source("shared" if key in self._finds_in_flight else "backends")
        answer: MergedAnswer[T] = await self._finds_in_flight.run(key, start)
        return answer

    def _store_found(self, multihash: bytes, answer: MergedAnswer[Sequence[ProviderResult]]) -> None:
        ttl_s = self.settings.hit_s if answer.found else self.settings.miss_s
        size_bytes, now = results_bytes(answer.found), self._clock.now()
        store_answer(self._cache, ("find", multihash), answer, size_bytes=size_bytes, ttl_s=ttl_s, now=now)

    def _record_find(self, surface: str, started: float, missing: Sequence[MissingBackend], *, is_found: bool) -> None:
        found = "yes" if is_found else ("unknown" if missing else "no")
        self.telemetry.record_find(surface, found, self._clock.now() - started, is_incomplete=bool(missing))


async def _decode_in_thread(body: bytes) -> list[Provider]:
    """Decode thousands of providers in a thread, so that finds do not wait."""
    return await asyncio.to_thread(providers_json.decode_providers, body)


def _total(replies: Sequence[ParsedReply[Any]], count: int) -> int | None:
    """The number of results, if the answer is truncated."""
    most = max((each.total for each in replies), default=0)
    return max(most, count) if most or count > RESULTS_MAX else None


def store_answer(
    cache: AnswerCache, key: Hashable, answer: MergedAnswer[Any], *, size_bytes: int, ttl_s: float, now: float
) -> None:
    """Cache a complete answer. An incomplete one is not cached, because the next one may be complete."""
    if not answer.missing and ttl_s > 0:
        cache.put(key, answer, size_bytes=size_bytes, expires_at=now + ttl_s)


# -- approximate memory of answers; an exact figure would cost more than it is worth -----------------------------------


def results_bytes(results: Sequence[ProviderResult]) -> int:
    texts = sum(len(each.context) + len(each.metadata) + sum(map(len, each.provider.addresses)) for each in results)
    return RECORD_BYTES * (1 + len(results)) + texts


def keys_bytes(keys: Sequence[bytes]) -> int:
    # 64 bytes: a bytes object and its place in the list.
    return RECORD_BYTES + sum(map(len, keys)) + 64 * len(keys)


def providers_bytes(providers: Sequence[Provider]) -> int:
    return RECORD_BYTES + sum(map(_provider_bytes, providers))


def _provider_bytes(provider: Provider) -> int:
    sets = [provider.extended.chain, *(each.peers for each in provider.extended.contexts.values())]
    extended = sum(SET_BYTES + sum(SET_BYTES + len(each.metadata) for each in peers) for peers in sets)
    return RECORD_BYTES + sum(map(len, provider.addresses)) + extended
