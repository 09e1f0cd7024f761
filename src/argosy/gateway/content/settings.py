"""The numbers of the content index's front door, each with its reason."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from argosy.base.settings import setting

MIB = 1 << 20


@dataclass(frozen=True)
class ContentSettings:
    """Which indexers are asked, how long they are waited for, and how long answers are kept."""

    SECTION: ClassVar[str] = "content"

    host: str = setting("127.0.0.1", doc="address the role content listens on")
    port: int = setting(8080, min=0, max=65535, doc="port the role content listens on; 0 takes a free one")
    backends: tuple[str, ...] = setting((), doc="find URLs of the indexers that are asked, the most trusted first")
    dh_backends: tuple[str, ...] = setting((), doc="URLs asked for double-hashed lookups only, besides the indexers")
    pool_file: str | None = setting(
        None, doc="the assigner's pool file, or a JSON list of find URLs: more indexers; read again when it changes"
    )
    watch_s: float = setting(5.0, min=0.1, doc="how often the pool file is looked at for changes")
    find_s: float = setting(5.0, min=0.05, doc="an indexer that has not answered by then has failed")
    stream_s: float = setting(20.0, min=0.05, doc="the same for streams of lines, to their end")
    connect_s: float = setting(2.0, min=0.05, doc="longest time a connection to an indexer may take to be made")
    patience_min_s: float = setting(0.1, min=0.0, doc="with something found, every indexer is waited for this long")
    patience_max_s: float = setting(1.0, min=0.0, doc="and none longer than this, however slow it usually is")
    breaker_failures: int = setting(3, min=1, doc="failures in a row after which an indexer is left alone for a while")
    breaker_first_s: float = setting(1.0, min=0.01, doc="how long at first; doubles each time it fails again")
    breaker_ceiling_s: float = setting(30.0, min=0.01, doc="longest time an indexer is left alone")
    stall_s: float = setting(2.0, min=0.1, doc="a busy indexer that answers nobody for so long is left alone")
    finds_max: int = setting(256, min=1, doc="finds that are put to indexers at a time; further ones are turned away")
    requests_max: int = setting(512, min=1, doc="questions under way to one indexer; above it is passed over as busy")
    cache_entries: int = setting(10_000, min=0, doc="answers kept; 0 keeps none")
    cache_bytes: int = setting(64 * MIB, min=0, doc="memory they may take, about")
    hit_s: float = setting(10.0, min=0.0, max=300.0, doc="how long something found is kept")
    miss_s: float = setting(5.0, min=0.0, max=15.0, doc="how long it is kept that nothing was found")
    providers_s: float = setting(15.0, min=0.0, max=300.0, doc="how long the list of all providers is kept")

    def check(self) -> Iterable[str]:
        if self.breaker_first_s > self.breaker_ceiling_s:
            yield f"breaker_first_s ({self.breaker_first_s}) must not exceed breaker_ceiling_s"
        if self.patience_min_s > self.patience_max_s:
            yield f"patience_min_s ({self.patience_min_s}) must not exceed patience_max_s ({self.patience_max_s})"
