"""Figures of the fleet benchmark, and their goals."""

from argosy.bench.harness import Figure

RATE_PER_S = 200  # queries a second that the fleet is to answer in time

OVERHEAD = Figure("overhead.p50", "ms", "lower", goal=3)
OVERHEAD_ALL = Figure("overhead.all_nodes_p50", "ms", "lower")
OVERHEAD_CPU = Figure("overhead.gateway_cpu", "ms/query", "lower")
DIRECT = Figure("overhead.direct_p50", "ms", "lower")
OVERHEADS = (OVERHEAD, OVERHEAD_ALL, OVERHEAD_CPU, DIRECT)

P50 = Figure("load.p50", "ms", "lower")
P95 = Figure("load.p95", "ms", "lower")
P99 = Figure("load.p99", "ms", "lower", goal=100)
ERRORS = Figure("load.errors", "queries", "lower", goal=0)
GATEWAY_CPU = Figure("load.gateway_cpu", "ms/query", "lower")
NODES_CPU = Figure("load.nodes_cpu", "ms/query", "lower")
THROUGHPUT = Figure("load.throughput", "queries/s", "higher")
STEADY = (P50, P95, P99, GATEWAY_CPU, NODES_CPU)
LOADS = (*STEADY, ERRORS, THROUGHPUT)

IMPORT_S = 240.0  # for five hundred repositories
STORE_COMMANDS = Figure("import.store_commands", "commands/s", "lower")
STORE_TRANSACTIONS = Figure("import.store_transactions", "transactions/s", "lower")
REGISTRY_COMMANDS = Figure("import.registry_commands", "commands/s", "lower")
REGISTRY_TRANSACTIONS = Figure("import.registry_transactions", "transactions/s", "lower")
STORE_COMMANDS_AFTER = Figure("import.store_commands_after", "commands/s", "lower")
REGISTRY_COMMANDS_AFTER = Figure("import.registry_commands_after", "commands/s", "lower")
IMPORT_CPU = Figure("import.nodes_cpu", "ms/repository", "lower")
IMPORTS = (
    STORE_COMMANDS,
    STORE_TRANSACTIONS,
    REGISTRY_COMMANDS,
    REGISTRY_TRANSACTIONS,
    STORE_COMMANDS_AFTER,
    REGISTRY_COMMANDS_AFTER,
    IMPORT_CPU,
)

FAILED_WITH_REPLICA = Figure("killed.with_replica.failed", "queries", "lower", goal=0)
FAILED_OF_OTHERS = Figure("killed.alone.failed_of_others", "queries", "lower", goal=0)

DRAIN_TIMES = Figure("drain.times_faster", "x", "higher", goal=5)
DRAIN_READY = Figure("drain.successor_ready", "s", "lower")
DRAIN_RECEIVED = Figure("drain.received", "s", "lower")
REINDEXED = Figure("drain.reindexed", "s", "lower")
DRAINS = (DRAIN_TIMES, DRAIN_READY, DRAIN_RECEIVED, REINDEXED)


def import_ready(repositories: int) -> Figure:
    """The goal is in proportion to the number of repositories."""
    return Figure(f"import.ready_{repositories}", "s", "lower", goal=IMPORT_S * repositories / 500)


def outage(goal_s: float) -> Figure:
    """How long a repository without a replica is not served. `goal_s`: the sum of what cannot be avoided in that run,
    TTL, auction window and indexing."""
    return Figure("killed.alone.back", "s", "lower", goal=round(goal_s, 1))


OUTAGE = outage(0.0)  # for its id: the goal is known only after the run
