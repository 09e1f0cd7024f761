"""The bench of the registry: which figures, with which goals."""

from dataclasses import dataclass

from argosy.base.backends.servers import Valkey
from argosy.base.errors import ArgosyError
from argosy.bench.harness import Bench, Figure
from argosy.bench.registry import claims, memory, upserts
from argosy.registry.memory import ESTIMATES, TOTAL_MAX_BYTES
from argosy.registry.tables import ALIASES, TASKS


@dataclass(frozen=True)
class Plan:
    """How much is done in one run. Memory is what it is, and needs one."""

    upserts: int
    claims: int
    peer_claims: int


FULL = Plan(upserts=40_000, claims=20_000, peer_claims=2_000)
QUICK = Plan(upserts=10_000, claims=6_000, peer_claims=400)

# A row with one index is what a plain client's row and index set are; a task has three indexes, and its own figure.
UPSERTS = Figure("upsert.valkey", "rows/s", "higher", goal=20_000)
TASK_UPSERTS = Figure("upsert.task.valkey", "rows/s", "higher", goal=None)
CLAIMS = Figure("claim.sqlite", "claims/s", "higher", goal=8_000)
TOTALS = {runs: Figure(f"memory.runs_{runs}", "bytes", "lower", goal) for runs, goal in TOTAL_MAX_BYTES.items()}
ROWS = tuple(
    Figure(f"memory.row.{name}", "bytes/row", "lower", ESTIMATES[table].ceiling_bytes)
    for table, name in memory.ROWS.items()
)


async def registry(bench: Bench) -> None:
    """Memory and atomic upserts on Valkey, durable claims on SQLite; what is usually done, beside them."""
    plan = QUICK if bench.is_quick else FULL
    await on_valkey(bench, plan)
    await bench.measure(
        CLAIMS,
        run=lambda: claims.durable_claims_per_s(plan.claims),
        peers={"a commit each": lambda: claims.committed_claims_per_s(plan.peer_claims)},
    )


async def on_valkey(bench: Bench, plan: Plan) -> None:
    figures = (*TOTALS.values(), *ROWS, UPSERTS, TASK_UPSERTS)
    if not bench.wants(*[figure.id for figure in figures]):
        return
    try:
        server = Valkey()
    except ArgosyError as error:
        bench.give_up(figures, error)
        return
    with server:
        for runs, total in TOTALS.items():
            await measure_memory(bench, server, runs, (total, *ROWS) if total is TOTALS[100] else (total,))
        peers = {
            "redis-py HSET": lambda: upserts.plain_calls(server, plan.upserts // 4),
            "redis-py MULTI": lambda: upserts.multi_calls(server, plan.upserts // 4),
        }
        rows, tasks = upserts.aliases(plan.upserts), upserts.tasks(plan.upserts)
        await bench.measure(UPSERTS, run=lambda: upserts.ours(server, ALIASES, rows), peers=peers)
        await bench.measure(TASK_UPSERTS, run=lambda: upserts.ours(server, TASKS, tasks), peers=peers)


async def measure_memory(bench: Bench, server: Valkey, runs: int, figures: tuple[Figure, ...]) -> None:
    ids = {figure.id for figure in figures}

    async def ours() -> dict[str, float]:
        return {name: value for name, value in (await memory.ours(server, runs)).items() if name in ids}

    await bench.measure(*figures, run=ours, peers={"hash per row": lambda: memory.naive(server, runs)}, repeats=1)
