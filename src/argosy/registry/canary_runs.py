"""What became of a canary's runs: the newest hundred, kept as a log of a few bytes each.

A run is appended and the oldest dropped in one step. Two runs in one millisecond are two runs.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from argosy.base.errors import Invalid
from argosy.registry.crud import check_limit, known
from argosy.registry.rows import RunStatus
from argosy.registry.tables import CANARIES, CANARY_RUNS_LOG, named
from argosy.registry.transaction import Append, LogState, Now, ReadLog, TransactionBody, commit, read_many, transaction

KEEP = 100  # runs of one canary
KEEP_MAX = 1000
RUN_BYTES_MAX = 16_384  # a failed run carries what it saw instead; more than a page of that helps nobody
_STATUSES = tuple(RunStatus)  # a run stores the place: new ones go to the end


@dataclass(frozen=True)
class CanaryRun:
    ran_at: int
    status: RunStatus
    latency_ms: int
    failed: Mapping[str, Any] | None = None  # assertion -> what was seen instead


@dataclass(frozen=True)
class RunStats:
    runs: int
    passed: int
    failed: int
    errors: int
    latency_ms_median: int
    latency_ms_max: int


@transaction
def append(
    canary_id: str,
    status: RunStatus,
    latency_ms: int,
    *,
    failed: Mapping[str, Any] | None = None,
    keep: int = KEEP,
) -> TransactionBody[CanaryRun]:
    """Remembers a run as of now; NotFound if the canary has been deleted."""
    check_limit(keep, KEEP_MAX)
    (clock,) = yield from read_many(Now())
    yield from known(CANARIES, canary_id)
    run = CanaryRun(clock, RunStatus(status), latency_ms, failed)
    yield from commit(Append(named(CANARY_RUNS_LOG, canary_id), packed(run), keep=keep))
    return run


@transaction
def newest(canary_id: str, limit: int = KEEP) -> TransactionBody[tuple[CanaryRun, ...]]:
    """Runs, newest first."""
    log = yield from _log(canary_id, check_limit(limit, KEEP_MAX))
    return tuple(map(unpacked, log.entries))


@transaction
def last_failure(canary_id: str) -> TransactionBody[CanaryRun | None]:
    """The newest run that did not pass, as far as runs are kept."""
    runs = yield from newest(canary_id, KEEP_MAX)
    return next((run for run in runs if run.status is not RunStatus.PASS), None)


@transaction
def stats(canary_id: str) -> TransactionBody[RunStats]:
    runs = yield from newest(canary_id, KEEP_MAX)
    number = Counter(run.status for run in runs)
    latencies = sorted(run.latency_ms for run in runs) or [0]
    return RunStats(
        len(runs),
        passed=number[RunStatus.PASS],
        failed=number[RunStatus.FAIL],
        errors=number[RunStatus.ERROR],
        latency_ms_median=latencies[len(latencies) // 2],
        latency_ms_max=latencies[-1],
    )


def packed(run: CanaryRun) -> bytes:
    """About 15 bytes for a run that passed."""
    if not 0 <= run.latency_ms < 1 << 32:
        raise Invalid(f"a run takes 0 to 2^32 milliseconds, not {run.latency_ms}")
    values = [run.ran_at, _STATUSES.index(run.status), run.latency_ms, *([] if run.failed is None else [run.failed])]
    try:
        payload = msgspec.msgpack.encode(values)
    except (TypeError, OverflowError) as error:
        raise Invalid(f"what a run saw is plain data: {error}") from None
    if len(payload) > RUN_BYTES_MAX:
        raise Invalid(f"a run takes at most {RUN_BYTES_MAX} bytes, not {len(payload)}: keep fewer hits")
    return payload


def unpacked(payload: bytes) -> CanaryRun:
    ran_at, place, latency_ms, *failed = msgspec.msgpack.decode(payload)
    return CanaryRun(ran_at, _STATUSES[place], latency_ms, failed[0] if failed else None)


def _log(canary_id: str, limit: int) -> TransactionBody[LogState]:
    (log,) = yield from read_many(ReadLog(named(CANARY_RUNS_LOG, canary_id), limit))
    state: LogState = log
    return state
