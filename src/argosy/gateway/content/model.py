"""The nouns of the content index's front door: whom it asks, what comes of that, and what an answer lacks."""

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
NAMED_MAX = 16  # indexers that an error names


class BackendOutcome(Enum):
    """How a question to one indexer ended."""

    FOUND = "found"
    NOTHING = "nothing"  # it answered that it has none
    REFUSED = "refused"  # it lives and would not answer this
    MALFORMED = "malformed"  # it answered something else
    INCOMPLETE = "incomplete"  # it is a front door itself, and lacks something
    FAILED = "failed"  # it cannot be reached, or broke off
    ERROR = "error"  # a status of 500 or more
    TIMED_OUT = "timed out"
    LATE = "late"  # others had found something; it was not waited for any longer
    CIRCUIT_OPEN = "circuit open"
    BUSY = "busy"  # too many questions to it are under way

    @property
    def is_whole(self) -> bool:
        """Whether all that the indexer has is in the answer."""
        return self in (BackendOutcome.FOUND, BackendOutcome.NOTHING)


@dataclass(frozen=True)
class Backend:
    """One indexer by its find URL."""

    url: str
    is_for_second_hashes: bool = False  # asked for double-hashed lookups only

    @staticmethod
    def at(url: str, *, is_for_second_hashes: bool = False) -> "Backend":
        return Backend(normalize_url(url), is_for_second_hashes)

    @cached_property
    def place(self) -> tuple[str, int, bool]:
        """Host, port, and whether TLS is spoken there."""
        parts = urlsplit(self.url)
        is_secure = parts.scheme == "https"
        return parts.hostname or "", parts.port or (443 if is_secure else 80), is_secure

    @cached_property
    def name(self) -> str:
        """Host, port and path: what tells one from another in headers and metrics, without any password of the URL."""
        host, port, _ = self.place
        return f"[{host}]:{port}{self.prefix}" if ":" in host else f"{host}:{port}{self.prefix}"

    @cached_property
    def prefix(self) -> str:
        return urlsplit(self.url).path.rstrip("/")


@dataclass(frozen=True)
class MissingBackend:
    """An indexer whose part is not in an answer, or not all of it."""

    backend: str
    why: BackendOutcome


@dataclass(frozen=True)
class MergedAnswer(Generic[T]):
    """What indexers answered together. `total` is how many results there were, if not all of them are told."""

    found: T
    missing: tuple[MissingBackend, ...] = ()
    total: int | None = None


class InconclusiveFind(Unavailable):
    """Nothing was found and not everybody could be asked: whether there is something, nobody knows."""

    status = 504

    def __init__(self, missing: Sequence[MissingBackend]) -> None:
        super().__init__(f"nothing was found, but not every indexer answered ({told(missing)}): ask again later")
        self.missing = tuple(missing)
        self.retry_after_s = RETRY_AFTER_S


def told(missing: Sequence[MissingBackend]) -> str:
    """`10.0.0.1:3000=timed out; 10.0.0.2:3000=busy`."""
    named = [f"{each.backend}={each.why.value}" for each in missing[:NAMED_MAX]]
    return "; ".join(named + ([f"and {len(missing) - NAMED_MAX} more"] if len(missing) > NAMED_MAX else []))
