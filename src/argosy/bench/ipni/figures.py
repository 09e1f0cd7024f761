"""Figures of the content index benchmark, and their goals."""

from argosy.bench.harness import Figure

CHUNK = 16_384  # multihashes in a chunk, as IPNI publishers write them
FAN_OUT = 8  # indexers behind the gateway

CBOR = Figure("ingest.cbor", "multihashes/s", "higher", goal=200_000)
CBOR_CPU = Figure("ingest.cbor_cpu", "µs/multihash", "lower")
CBOR_P50 = Figure("ingest.cbor_find_p50", "ms", "lower")
CBOR_P99 = Figure("ingest.cbor_find_p99", "ms", "lower", goal=20)
JSON = Figure("ingest.json", "multihashes/s", "higher", goal=120_000)
JSON_CPU = Figure("ingest.json_cpu", "µs/multihash", "lower")
JSON_P50 = Figure("ingest.json_find_p50", "ms", "lower")
JSON_P99 = Figure("ingest.json_find_p99", "ms", "lower", goal=20)
DISK = Figure("ingest.disk", "bytes/multihash", "lower", goal=60)

FIND = Figure("find.rate", "1/s", "higher", goal=8_000)
FIND_CPU = Figure("find.cpu", "µs", "lower")
FIND_P50 = Figure("find.p50", "ms", "lower")
FINDS = (FIND, FIND_CPU, FIND_P50)

PUT = Figure("store.put", "multihashes/s", "higher")
PUT_CPU = Figure("store.put_cpu", "µs/multihash", "lower")
GET_CPU = Figure("store.get_cpu", "µs", "lower")
PUT_DISK = Figure("store.disk", "bytes/multihash", "lower", goal=60)
STORES = (PUT, PUT_CPU, GET_CPU, PUT_DISK)

DIRECT_P50 = Figure("fanout.direct_p50", "ms", "lower")
GATEWAY_P50 = Figure("fanout.find_p50", "ms", "lower")
ADDED_P50 = Figure("fanout.added_p50", "ms", "lower", goal=3)
GATEWAY_CPU = Figure("fanout.cpu", "µs", "lower")
INDEXERS_CPU = Figure("fanout.indexers_cpu", "µs", "lower")
OVERHEADS = (DIRECT_P50, GATEWAY_P50, ADDED_P50, GATEWAY_CPU, INDEXERS_CPU)

HEALTHY_P99 = Figure("fanout.healthy_p99", "ms", "lower")
STALLED_P99 = Figure("fanout.stalled_p99", "ms", "lower")
STALLED_TIMES = Figure("fanout.stalled_times", "x", "lower", goal=1.25)
DEAD_P99 = Figure("fanout.dead_p99", "ms", "lower")
DEAD_TIMES = Figure("fanout.dead_times", "x", "lower", goal=1.25)
LOSSES = (HEALTHY_P99, STALLED_P99, STALLED_TIMES, DEAD_P99, DEAD_TIMES)

GROWTH_GOAL = 0.7  # of the rate of the first million, at fifty millions


def ingest(codec: str) -> tuple[Figure, Figure, Figure, Figure]:
    """Rate, CPU, and the latency of concurrent finds."""
    return (CBOR, CBOR_CPU, CBOR_P50, CBOR_P99) if codec == "cbor" else (JSON, JSON_CPU, JSON_P50, JSON_P99)


def growth(millions: int, *, has_goal: bool) -> tuple[Figure, Figure]:
    """The rate of the last million relative to the first: by the clock, and by the CPU that it took."""
    goal = GROWTH_GOAL if has_goal else None
    return (
        Figure(f"growth.rate_at_{millions}M", "x", "higher", goal=goal),
        Figure(f"growth.cpu_rate_at_{millions}M", "x", "higher"),
    )
