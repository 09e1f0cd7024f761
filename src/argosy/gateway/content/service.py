"""The content gateway: sends a find to every indexer and merges the answers.

    gateway = ContentGateway([Backend.at("http://10.0.0.1:3000"), Backend.at("http://10.0.0.2:3000")])
    answer = await gateway.find([multihash])

An answer says which indexers it lacks (GW-1). What is found is kept for a moment, and so, for less, is that nothing
was; an answer that lacks something is not. Identical finds that meet are one.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeAlias, TypeVar

from argosy.base.cache import Cache
from argosy.base.clock import Clock, Random, SystemClock, system_random
from argosy.base.metrics import Metrics
from argosy.base.single_flight import SingleFlight
from argosy.base.tracing import NO_TRACER, Tracer
from argosy.gateway.content import backend_requests, merge, reply_parser
from argosy.gateway.content.dispatcher import ContentDispatcher
from argosy.gateway.content.find_stream import CachedStream, FindStream
from argosy.gateway.content.http1_client import Http1Client
from argosy.gateway.content.model import Backend, MergedAnswer, MissingBackend
from argosy.gateway.content.reply_parser import ParsedReply
from argosy.gateway.content.telemetry import ContentTelemetry
from argosy.gateway.settings import ContentSettings
from argosy.ipni.model import Provider, ProviderResult
from argosy.ipni.web import providers_json
from argosy.ipni.web.lookup_params import ResponseFormat
from argosy.ipni.web.measured_finds import RESULTS_MAX
from argosy.ipni.web.results import Found

RECORD_BYTES = 600  # approximate overhead of the Python objects of a record
SET_BYTES = 300

# The caller decides which type of answer belongs to which type of key.
AnswerCache: TypeAlias = Cache[Hashable, MergedAnswer[Any]]


def store_answer(
    cache: AnswerCache, key: Hashable, answer: MergedAnswer[Any], *, size_bytes: int, ttl_s: float, now: float
) -> None:
    """Store a complete answer. An incomplete one is not cached, because the next one may be complete."""
    if not answer.missing and ttl_s > 0:
        cache.put(key, answer, size_bytes=size_bytes, expires_at=now + ttl_s)


def results_bytes(results: Sequence[ProviderResult]) -> int:
    """Approximate memory; an exact figure would cost more than it is worth."""
    texts = sum(len(each.context) + len(each.metadata) + sum(map(len, each.provider.addresses)) for each in results)
    return RECORD_BYTES * (1 + len(results)) + texts


def keys_bytes(keys: Sequence[bytes]) -> int:
    return RECORD_BYTES + sum(map(len, keys)) + 64 * len(keys)


def providers_bytes(providers: Sequence[Provider]) -> int:
    return RECORD_BYTES + sum(map(_provider_bytes, providers))


def _provider_bytes(provider: Provider) -> int:
    sets = [provider.extended.chain, *(each.peers for each in provider.extended.contexts.values())]
    extended = sum(SET_BYTES + sum(SET_BYTES + len(each.metadata) for each in peers) for peers in sets)
    return RECORD_BYTES + sum(map(len, provider.addresses)) + extended


T = TypeVar("T")


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
        self._cache: AnswerCache = AnswerCache(entries_max=settings.cache_entries, bytes_max=settings.cache_bytes)
        self._sharing: SingleFlight[Any] = SingleFlight()
        self.replace(backends)

    def replace(self, backends: Sequence[Backend]) -> None:
        """Replace the list of indexers; the state of those that stay is kept."""
        by_name: dict[str, Backend] = {}
        for backend in backends:
            by_name.setdefault(backend.name, backend)
        wanted = tuple(by_name.values())
        if wanted != self.backends:
            self.backends = wanted
            self.plain = tuple(each for each in wanted if not each.is_for_second_hashes)
            self._cache.clear()
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
            if (kept := self._cache.get(("find", each), started)) is not None:
                found[each] = kept.found
        rest = tuple(dict.fromkeys(each for each in multihashes if each not in found))
        missing: tuple[MissingBackend, ...] = ()
        total = None
        if rest:
            answer: MergedAnswer[list[Found]] = await self._shared(("find", rest), lambda: self._found(rest))
            found |= dict(answer.found)
            missing, total = answer.missing, answer.total
        else:
            self.telemetry.record_source("cache")
        self._tell(surface, started, missing, is_found=any(found.values()))
        return MergedAnswer([(each, found[each]) for each in dict.fromkeys(multihashes)], missing, total)

    @asynccontextmanager
    async def stream(self, multihash: bytes, surface: str = "find") -> AsyncIterator[FindStream | CachedStream]:
        """Stream results as they arrive."""
        started = self._clock.now()
        if (kept := self._cache.get(("find", multihash), started)) is not None:
            self.telemetry.record_source("cache")
            self._tell(surface, started, (), is_found=bool(kept.found))
            yield CachedStream(kept.found)
            return
        self.telemetry.record_source("backends")
        question = backend_requests.find([multihash], ResponseFormat.LINES, self._tracer.inject())
        with self._dispatcher.streamed(self.plain, question, multihash) as stream:
            try:
                yield stream
            finally:
                await stream.close()
        self._tell(surface, started, stream.missing, is_found=stream.has_found)
        if stream.is_whole and stream.total is None and stream.kept is not None:
            parts = [stream.kept[each.name] for each in self.backends if each.name in stream.kept]
            self._keep_found(multihash, MergedAnswer(merge.merged(parts), stream.missing))

    async def find_encrypted(self, second_hash: bytes, surface: str = "encrypted") -> MergedAnswer[list[bytes]]:
        """The encrypted value keys under a second hash."""

        async def gathered() -> MergedAnswer[list[bytes]]:
            question = backend_requests.find_encrypted(second_hash, self._tracer.inject())
            read = partial(reply_parser.read_keys, second_hash=second_hash)
            readings, missing = await self._dispatcher.gathered(self.backends, question, read)
            keys = merge.merged_keys(each.value for each in readings)
            return MergedAnswer(keys[:RESULTS_MAX], missing, _total(readings, len(keys)))

        return await self._kept_or(("encrypted", second_hash), surface, gathered, keys_bytes)

    async def metadata(self, value_key_hash: bytes, surface: str = "metadata") -> MergedAnswer[bytes]:
        """Encrypted metadata from the first indexer that has it; empty if none has."""

        async def gathered() -> MergedAnswer[bytes]:
            question = backend_requests.metadata(value_key_hash, self._tracer.inject())
            readings, missing = await self._dispatcher.gathered(
                self.backends, question, reply_parser.read_metadata, is_one_enough=True
            )
            return MergedAnswer(next((each.value for each in readings if each.value), b""), missing)

        return await self._kept_or(("metadata", value_key_hash), surface, gathered, len)

    async def providers(self, surface: str = "providers") -> MergedAnswer[list[Provider]]:
        """The providers of all indexers, each from the indexer that is furthest along its chain."""

        async def gathered() -> MergedAnswer[list[Provider]]:
            question = backend_requests.providers(self._tracer.inject())
            read = partial(reply_parser.read_providers, decode=_decoded_aside)
            readings, missing = await self._dispatcher.gathered(self.plain, question, read)
            return MergedAnswer(merge.merged_providers(each.value for each in readings), missing)

        hit_s = self.settings.providers_s
        return await self._kept_or(("providers",), surface, gathered, providers_bytes, hit_s=hit_s)

    async def provider(self, id: str, surface: str = "provider") -> MergedAnswer[Provider | None]:
        """One provider; None if no indexer knows it."""

        async def gathered() -> MergedAnswer[Provider | None]:
            question = backend_requests.provider(id, self._tracer.inject())
            read = partial(reply_parser.read_provider, id=id)
            readings, missing = await self._dispatcher.gathered(self.plain, question, read)
            return MergedAnswer(merge.newest(each for part in readings for each in part.value), missing)

        return await self._kept_or(("provider", id), surface, gathered, lambda found: providers_bytes([found]))

    # -- caching and metrics ------------------------------------------------------------------------------------------

    async def _found(self, multihashes: tuple[bytes, ...]) -> MergedAnswer[list[Found]]:
        question = backend_requests.find(multihashes, ResponseFormat.JSON, self._tracer.inject())
        read = partial(reply_parser.read_found, asked=multihashes)

        def is_found(readings: Iterable[ParsedReply[reply_parser.ByMultihash]]) -> bool:
            known = {each for part in readings for each, results in part.value.items() if results}
            return known.issuperset(multihashes)

        readings, missing = await self._dispatcher.gathered(self.plain, question, read, is_found=is_found)
        found: list[Found] = []
        room, count = RESULTS_MAX, 0
        for multihash in multihashes:
            merged = merge.merged([part for each in readings if (part := each.value.get(multihash))])
            count += len(merged)
            found.append((multihash, merged[:room]))
            room -= len(found[-1][1])
        total = _total(readings, count)
        if total is None:
            for multihash, results in found:
                self._keep_found(multihash, MergedAnswer(results, missing))
        return MergedAnswer(found, missing, total)

    async def _kept_or(
        self,
        key: tuple[object, ...],
        surface: str,
        gather: Callable[[], Coroutine[Any, Any, MergedAnswer[T]]],
        weigh: Callable[[Any], int],
        *,
        hit_s: float | None = None,
    ) -> MergedAnswer[T]:
        started = self._clock.now()

        async def made() -> MergedAnswer[T]:
            answer = await gather()
            ttl_s = (self.settings.hit_s if hit_s is None else hit_s) if answer.found else self.settings.miss_s
            size_bytes = weigh(answer.found) if answer.found else 0
            store_answer(self._cache, key, answer, size_bytes=size_bytes, ttl_s=ttl_s, now=self._clock.now())
            return answer

        answer: MergedAnswer[T] | None = self._cache.get(key, started)
        if answer is None:
            answer = await self._shared(key, made)
        else:
            self.telemetry.record_source("cache")
        self._tell(surface, started, answer.missing, is_found=bool(answer.found))
        return answer

    def _keep_found(self, multihash: bytes, answer: MergedAnswer[Sequence[ProviderResult]]) -> None:
        ttl_s = self.settings.hit_s if answer.found else self.settings.miss_s
        size_bytes = results_bytes(answer.found)
        now = self._clock.now()
        store_answer(self._cache, ("find", multihash), answer, size_bytes=size_bytes, ttl_s=ttl_s, now=now)

    async def _shared(
        self, key: tuple[object, ...], start: Callable[[], Coroutine[Any, Any, MergedAnswer[T]]]
    ) -> MergedAnswer[T]:
        self.telemetry.record_source("shared" if key in self._sharing else "backends")
        answer: MergedAnswer[T] = await self._sharing.run(key, start)
        return answer

    def _tell(self, surface: str, started: float, missing: Sequence[MissingBackend], *, is_found: bool) -> None:
        found = "yes" if is_found else ("unknown" if missing else "no")
        self.telemetry.record_find(surface, found, self._clock.now() - started, is_incomplete=bool(missing))


async def _decoded_aside(body: bytes) -> list[Provider]:
    """In a thread, so that finds do not wait."""
    return await asyncio.to_thread(providers_json.decode_providers, body)


def _total(readings: Sequence[ParsedReply[Any]], count: int) -> int | None:
    """The number of results, if the answer is truncated."""
    most = max((each.total for each in readings), default=0)
    return max(most, count) if most or count > RESULTS_MAX else None
