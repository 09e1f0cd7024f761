"""Data model of the content gateway: indexers, outcomes of requests, merged answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from argosy.base.errors import Unavailable
from argosy.ipni.indexer_wire import normalize_url

T = TypeVar("T")

RETRY_AFTER_S = 2.0  # advice when indexers failed: their breakers open and close within seconds
# Indexers named in an error, and in the header x-argosy-missing, whose size proxies limit.
NAMED_MAX = 16


class BackendOutcome(Enum):
    """The outcome of a request to an indexer."""

    FOUND = "found"
    NOTHING = "nothing"  # a valid response without results
    REFUSED = "refused"  # a status between 400 and 499
    MALFORMED = "malformed"  # the response cannot be parsed
    INCOMPLETE = "incomplete"  # it is a gateway itself, and its answer is incomplete
    FAILED = "failed"  # unreachable, or the connection broke
    ERROR = "error"  # a status of 500 or more
    TIMED_OUT = "timed out"
    LATE = "late"  # slower than usual, and others had results
    CIRCUIT_OPEN = "circuit open"  # not queried
    BUSY = "busy"  # not queried: too many requests in flight to it

    @property
    def is_whole(self) -> bool:
        """Whether the answer has everything the indexer has."""
        return self in (BackendOutcome.FOUND, BackendOutcome.NOTHING)


@dataclass(frozen=True)
class Backend:
    """One indexer by its find URL."""

    url: str
    is_for_second_hashes: bool = False  # for double-hashed lookups only

    @staticmethod
    def at(url: str, *, is_for_second_hashes: bool = False) -> "Backend":
        return Backend(normalize_url(url), is_for_second_hashes)

    @cached_property
    def address(self) -> tuple[str, int, bool]:
        """Host, port, and whether to use TLS."""
        parts = urlsplit(self.url)
        is_secure = parts.scheme == "https"
        return parts.hostname or "", parts.port or (443 if is_secure else 80), is_secure

    @cached_property
    def name(self) -> str:
        """Host, port and path: the identity in headers and metrics, without credentials of the URL."""
        host, port, _ = self.address
        return f"[{host}]:{port}{self.prefix}" if ":" in host else f"{host}:{port}{self.prefix}"

    @cached_property
    def prefix(self) -> str:
        return urlsplit(self.url).path.rstrip("/")


@dataclass(frozen=True)
class MissingBackend:
    """An indexer whose results are missing from the answer, in whole or in part."""

    backend: str
    why: BackendOutcome


@dataclass(frozen=True)
class MergedAnswer(Generic[T]):
    """The merged answer of the indexers. `total` is the number of results if the answer is truncated."""

    found: T
    missing: tuple[MissingBackend, ...] = ()
    total: int | None = None


class InconclusiveFind(Unavailable):
    """No results, and not every indexer answered, so whether there are any is unknown.

    504 and not 404: caches store a 404 and clients trust it, so it would hide content whenever an indexer restarts.
    """

    status = 504

    def __init__(self, missing: Sequence[MissingBackend]) -> None:
        super().__init__(f"no results, but not every indexer answered ({format_missing(missing)}); retry later")
        self.missing = tuple(missing)
        self.retry_after_s = RETRY_AFTER_S


def format_missing(missing: Sequence[MissingBackend]) -> str:
    """`10.0.0.1:3000=timed out; 10.0.0.2:3000=busy`."""
    named = [f"{each.backend}={each.why.value}" for each in missing[:NAMED_MAX]]
    return "; ".join(named + ([f"and {len(missing) - NAMED_MAX} more"] if len(missing) > NAMED_MAX else []))
