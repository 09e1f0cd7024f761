"""Finds with metrics, and the limit on results per answer."""

from collections.abc import Sequence

from argosy.base.clock import Clock
from argosy.base.metrics import Metrics, histogram
from argosy.ipni.model import ProviderResult
from argosy.ipni.ports import FindApi

# Some content is everywhere: fourteen thousand records for one CID have been seen, in four megabytes of JSON.
RESULTS_MAX = 20_000
TRUNCATED_HEADER = "x-argosy-truncated"  # number of results, when some are omitted

FIND_SECONDS = histogram(
    "argosy_ipni_find_seconds",
    "Duration of finds inside the indexer by surface and by whether anything was found",
    labels=("surface", "found"),
)


class MeasuredFinds:
    """The finds of an indexer, measured."""

    def __init__(self, indexer: FindApi, *, clock: Clock, metrics: Metrics) -> None:
        self._indexer = indexer
        self._clock = clock
        self._metrics = metrics

    async def find(self, multihashes: Sequence[bytes], surface: str) -> list[tuple[ProviderResult, ...]]:
        started = self._clock.now()
        found = await self._indexer.find(multihashes)
        self._measure(started, surface, any(found))
        return found

    async def find_encrypted(self, second_hash: bytes) -> tuple[bytes, ...]:
        started = self._clock.now()
        [keys] = await self._indexer.find_encrypted([second_hash])
        self._measure(started, "encrypted", bool(keys))
        return keys

    def _measure(self, started: float, surface: str, is_found: bool) -> None:
        took_s = self._clock.now() - started
        self._metrics.observe(FIND_SECONDS, took_s, surface=surface, found="yes" if is_found else "no")
