"""What is measured, and what should come out."""

from argosy.bench.harness import Figure

CHUNK = 16_384  # multihashes in a chunk, as publishers make them
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

DIRECT_P50 = Figure("door.direct_p50", "ms", "lower")
SPREAD_P50 = Figure("door.spread_p50", "ms", "lower")
ADDED_P50 = Figure("door.added_p50", "ms", "lower", goal=3)
SPREAD_CPU = Figure("door.cpu", "µs", "lower")
INDEXERS_CPU = Figure("door.indexers_cpu", "µs", "lower")
SPREADS = (DIRECT_P50, SPREAD_P50, ADDED_P50, SPREAD_CPU, INDEXERS_CPU)

WHOLE_P99 = Figure("door.whole_p99", "ms", "lower")
STALLED_P99 = Figure("door.stalled_p99", "ms", "lower")
STALLED_TIMES = Figure("door.stalled_times", "x", "lower", goal=1.25)
DEAD_P99 = Figure("door.dead_p99", "ms", "lower")
DEAD_TIMES = Figure("door.dead_times", "x", "lower", goal=1.25)
LOSSES = (WHOLE_P99, STALLED_P99, STALLED_TIMES, DEAD_P99, DEAD_TIMES)

GROWN_GOAL = 0.7  # of the rate of the first million, at fifty


def ingest(codec: str) -> tuple[Figure, Figure, Figure, Figure]:
    """Rate, CPU, and the finds meanwhile."""
    return (CBOR, CBOR_CPU, CBOR_P50, CBOR_P99) if codec == "cbor" else (JSON, JSON_CPU, JSON_P50, JSON_P99)


def grown(millions: int, *, has_goal: bool) -> tuple[Figure, Figure]:
    """The rate of the last of so many millions beside that of the first: by the clock, and by the CPU it took."""
    goal = GROWN_GOAL if has_goal else None
    return (
        Figure(f"growth.rate_at_{millions}M", "x", "higher", goal=goal),
        Figure(f"growth.cpu_rate_at_{millions}M", "x", "higher"),
    )
