"""Settings of the gateway, its v1 API and the content gateway."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from argosy.base.settings import setting

MIB = 1 << 20


@dataclass(frozen=True)
class GatewaySettings:
    """How queries are distributed over nodes, and how slow and failing nodes are handled."""

    SECTION: ClassVar[str] = "gateway"

    deadline_s: float = setting(
        20.0, min=0.1, doc="upper bound on the duration of a query, whatever timeout it requests"
    )
    # A node stops at the deadline and sends what it has; without a margin that response would always be too late.
    margin_s: float = setting(0.25, min=0.0, doc="extra wait after the deadline for partial results to arrive")
    queue_wait_s: float = setting(
        0.1, min=0.0, max=10.0, doc="longest wait of a query in the queue while the adaptive limit is reached"
    )
    queries_max: int = setting(
        256, min=1, doc="queries in progress, queued ones included; further ones are rejected with 503"
    )
    with_hedging: bool = setting(True, doc="send a hedged request to another holder when one is slower than usual")
    hedge_min_s: float = setting(0.03, min=0.001, doc="shortest wait before a hedged request")
    hedge_share: float = setting(
        0.1, min=0.0, max=1.0, doc="hedged requests as a share of all requests; bounds the extra load"
    )
    breaker_failures: int = setting(3, min=1, doc="consecutive failures that open a node's circuit breaker")
    breaker_first_s: float = setting(
        1.0, min=0.01, doc="how long the circuit breaker stays open at first; doubles with each failed probe"
    )
    breaker_ceiling_s: float = setting(30.0, min=0.01, doc="longest time the circuit breaker stays open between probes")
    stall_s: float = setting(
        5.0, min=0.1, doc="a busy node without any response for this long has its circuit breaker opened"
    )
    cache_entries: int = setting(1024, min=0, doc="cached answers; 0 disables the cache")
    cache_bytes: int = setting(64 * MIB, min=0, doc="approximate memory bound of cached answers")
    # A refreshed index reaches the catalog's version only when its node has recorded it; until then the TTL bounds
    # staleness.
    cache_ttl_s: float = setting(
        2.0, min=0.0, doc="lifetime of a cached answer; a change of leases or catalog ends it sooner"
    )
    status_s: float = setting(1.0, min=0.0, doc="how long node status reports are cached")
    status_timeout_s: float = setting(1.0, min=0.05, doc="timeout of a node status request")
    with_admission: bool = setting(True, doc="share capacity fairly between clients when it is short")

    def check(self) -> Iterable[str]:
        if self.breaker_first_s > self.breaker_ceiling_s:
            yield f"breaker_first_s ({self.breaker_first_s}) must not exceed breaker_ceiling_s"
        if self.hedge_min_s >= self.deadline_s:
            yield f"hedge_min_s ({self.hedge_min_s}) must be below deadline_s ({self.deadline_s})"


@dataclass(frozen=True)
class ContentSettings:
    """Which indexers are queried, with which timeouts, and how long answers are cached."""

    SECTION: ClassVar[str] = "content"

    host: str = setting("127.0.0.1", doc="address that the role content listens on")
    port: int = setting(8080, min=0, max=65535, doc="port that the role content listens on; 0 selects a free port")
    backends: tuple[str, ...] = setting((), doc="find URLs of the indexers, the most trusted first")
    dh_backends: tuple[str, ...] = setting((), doc="URLs for double-hashed lookups only, besides the indexers")
    pool_file: str | None = setting(
        None, doc="the assigner's pool file, or a JSON list of find URLs: more indexers; reloaded on change"
    )
    watch_s: float = setting(5.0, min=0.1, doc="how often the pool file is checked for changes")
    find_s: float = setting(5.0, min=0.05, doc="timeout of a request to an indexer")
    stream_s: float = setting(20.0, min=0.05, doc="timeout of a streamed request, to its end")
    connect_s: float = setting(2.0, min=0.05, doc="timeout for connecting to an indexer")
    # With 50 ms, 14 of 1000 answers were incomplete under high load (decision 0028).
    patience_min_s: float = setting(0.1, min=0.0, doc="with a result found, shortest wait for the other indexers")
    patience_max_s: float = setting(
        1.0, min=0.0, doc="with a result found, longest wait for an indexer that is usually slow"
    )
    breaker_failures: int = setting(3, min=1, doc="consecutive failures that open an indexer's circuit breaker")
    breaker_first_s: float = setting(
        1.0, min=0.01, doc="how long the circuit breaker stays open at first; doubles with each failed probe"
    )
    breaker_ceiling_s: float = setting(30.0, min=0.01, doc="longest time the circuit breaker stays open between probes")
    stall_s: float = setting(
        2.0, min=0.1, doc="a busy indexer without any response for this long has its circuit breaker opened"
    )
    finds_max: int = setting(256, min=1, doc="finds in progress; further ones are rejected with 503")
    requests_max: int = setting(512, min=1, doc="requests in progress per indexer; above this it is skipped as busy")
    cache_entries: int = setting(10_000, min=0, doc="cached answers; 0 disables the cache")
    cache_bytes: int = setting(64 * MIB, min=0, doc="approximate memory bound of cached answers")
    hit_s: float = setting(10.0, min=0.0, max=300.0, doc="how long results are cached")
    # At most 15 s: a new advertisement should be findable soon.
    miss_s: float = setting(5.0, min=0.0, max=15.0, doc="how long a miss is cached")
    providers_s: float = setting(15.0, min=0.0, max=300.0, doc="how long the list of all providers is cached")

    def check(self) -> Iterable[str]:
        if self.breaker_first_s > self.breaker_ceiling_s:
            yield f"breaker_first_s ({self.breaker_first_s}) must not exceed breaker_ceiling_s"
        if self.patience_min_s > self.patience_max_s:
            yield f"patience_min_s ({self.patience_min_s}) must not exceed patience_max_s ({self.patience_max_s})"


@dataclass(frozen=True)
class ApiSettings:
    """Cross-origin access and the webhook secret."""

    SECTION: ClassVar[str] = "api"

    cors_origins: tuple[str, ...] = setting(
        (), doc="origins whose pages may call /v1 from a browser, or * for any; none by default"
    )
    webhook_secret: str | None = setting(
        None,
        secret=True,
        doc="secret that code hosts sign their push events with; without it they need the admin token",
    )

    def check(self) -> Iterable[str]:
        wrong = [each for each in self.cors_origins if each != "*" and "://" not in each]
        if wrong:
            yield f"cors_origins are like https://host, not {', '.join(wrong)}"
