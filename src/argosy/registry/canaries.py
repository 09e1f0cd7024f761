"""Canaries: searches that run on a schedule and whose results are checked, and the log of their runs.

A run is appended and the oldest one dropped in one commit. The log is a list, not keyed by time, so two
runs in the same millisecond stay two entries.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from argosy.base.errors import Conflict, Invalid
from argosy.registry import crud
from argosy.registry.crud import check_key, check_limit, check_unique, put_row
from argosy.registry.rows import Canary, RunStatus
from argosy.registry.tables import CANARIES, CANARY_RUNS_LOG, log_name
from argosy.registry.transaction import (
    Append,
    Delete,
    DropLog,
    Get,
    LogState,
    Now,
    ReadLog,
    TransactionBody,
    commit,
    find,
    get,
    read_many,
    transaction,
)

INTERVAL_S_MAX = 7 * 86_400
ASSERTIONS_MAX = 64
NAME_CHARS_MAX = 200
RUNS_KEPT = 100  # runs retained per canary, the design's default
RUNS_KEPT_MAX = 1000
RUN_BYTES_MAX = 16_384  # a failed run contains the values that it saw; more than a page of them does not help
_STATUSES = tuple(RunStatus)  # a run stores the position in this tuple, so new statuses are appended


@transaction
def create(
    canary_id: str,
    name: str,
    *,
    index_uid: str,
    interval_s: int,
    query: Mapping[str, Any],
    assertions: Sequence[Mapping[str, Any]],
    is_enabled: bool = True,
) -> TransactionBody[Canary]:
    """Creates a canary. Raises `Conflict` if its id or name is in use."""
    check_key(CANARIES, (canary_id,))
    clock, existing = yield from read_many(Now(), Get(CANARIES, (canary_id,)))
    if existing is not None:
        raise Conflict(f"canary {canary_id!r} already exists")
    encoded = tuple(json.dumps(assertion, separators=(",", ":"), ensure_ascii=False) for assertion in assertions)
    canary = Canary(canary_id, name, index_uid, interval_s, query, encoded, is_enabled, clock)
    _check(canary)
    yield from check_unique(CANARIES, canary)
    return (yield from put_row(CANARIES, canary))


@transaction
def update(canary: Canary) -> TransactionBody[Canary]:
    """Stores a canary that was read before. Raises `Conflict` if it has changed since."""
    _check(canary)
    if canary.version == 0:
        raise Invalid(f"canary {canary.canary_id!r} has version 0; call create first")
    return (yield from crud.put(CANARIES, canary))


@transaction
def enable(canary_id: str, is_enabled: bool) -> TransactionBody[Canary]:
    canary = yield from crud.require(CANARIES, canary_id)
    return (yield from put_row(CANARIES, replace(canary, is_enabled=is_enabled)))


@transaction
def read(canary_id: str) -> TransactionBody[Canary | None]:
    check_key(CANARIES, (canary_id,))
    return (yield from get(CANARIES, canary_id))


@transaction
def read_by_name(name: str) -> TransactionBody[Canary | None]:
    check_key(CANARIES, (name,))
    rows = yield from find(CANARIES, "name", name, limit=1)
    return rows[0] if rows else None


@transaction
def everything(*, is_enabled: bool | None = None) -> TransactionBody[list[Canary]]:
    """All canaries, or only the enabled or the disabled ones, oldest first."""
    canaries = yield from crud.every(CANARIES)
    return [canary for canary in canaries if is_enabled is None or canary.is_enabled == is_enabled]


@transaction
def remove(canary_id: str) -> TransactionBody[bool]:
    """Deletes a canary together with its runs. Returns False if there is none."""
    check_key(CANARIES, (canary_id,))
    canary = yield from get(CANARIES, canary_id)
    if canary is None:
        return False
    # In one commit, because a log without its canary would never be found again.
    yield from commit(Delete(CANARIES, canary), DropLog(log_name(CANARY_RUNS_LOG, canary_id)))
    return True


def assertions_of(canary: Canary) -> tuple[dict[str, Any], ...]:
    return tuple(map(json.loads, canary.assertions))


def _check(canary: Canary) -> None:
    if not 1 <= len(canary.name) <= NAME_CHARS_MAX:
        raise Invalid(f"a canary's name has 1 to {NAME_CHARS_MAX} characters, not {len(canary.name)}")
    if not 1 <= canary.interval_s <= INTERVAL_S_MAX:
        raise Invalid(f"a canary runs every 1 to {INTERVAL_S_MAX} seconds, not {canary.interval_s}")
    if len(canary.assertions) > ASSERTIONS_MAX:
        raise Invalid(f"a canary makes at most {ASSERTIONS_MAX} assertions, not {len(canary.assertions)}")
    for assertion in assertions_of(canary):
        if not isinstance(assertion, dict) or not isinstance(assertion.get("type"), str):
            raise Invalid(f"an assertion is an object with a type, not {assertion!r:.80}")


# -- runs: the newest of each canary, a log of a few bytes per run -------------------------------------------


@dataclass(frozen=True)
class CanaryRun:
    ran_at: int
    status: RunStatus
    latency_ms: int
    failed: Mapping[str, Any] | None = None  # assertion -> the value seen instead


@dataclass(frozen=True)
class RunStats:
    runs: int
    passed: int
    failed: int
    errors: int
    latency_ms_median: int
    latency_ms_max: int


@transaction
def append_run(
    canary_id: str,
    status: RunStatus,
    latency_ms: int,
    *,
    failed: Mapping[str, Any] | None = None,
    keep: int = RUNS_KEPT,
) -> TransactionBody[CanaryRun]:
    """Appends a run with the current time. Raises `NotFound` if the canary has been deleted."""
    check_limit(keep, RUNS_KEPT_MAX)
    (clock,) = yield from read_many(Now())
    # Reading the canary makes it a condition of the commit: a run that ends after a deletion must not create its log
    # again.
    yield from crud.require(CANARIES, canary_id)
    run = CanaryRun(clock, RunStatus(status), latency_ms, failed)
    yield from commit(Append(log_name(CANARY_RUNS_LOG, canary_id), encode_run(run), keep=keep))
    return run


@transaction
def newest_runs(canary_id: str, limit: int = RUNS_KEPT) -> TransactionBody[tuple[CanaryRun, ...]]:
    """Runs, newest first."""
    log = yield from _log(canary_id, check_limit(limit, RUNS_KEPT_MAX))
    return tuple(map(decode_run, log.entries))


@transaction
def last_failure(canary_id: str) -> TransactionBody[CanaryRun | None]:
    """The newest retained run that did not pass."""
    runs = yield from newest_runs(canary_id, RUNS_KEPT_MAX)
    return next((run for run in runs if run.status is not RunStatus.PASS), None)


@transaction
def run_stats(canary_id: str) -> TransactionBody[RunStats]:
    runs = yield from newest_runs(canary_id, RUNS_KEPT_MAX)
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


def encode_run(run: CanaryRun) -> bytes:
    """About 15 bytes for a run that passed."""
    if not 0 <= run.latency_ms < 1 << 32:
        raise Invalid(f"a run takes 0 to 2^32 milliseconds, not {run.latency_ms}")
    values = [run.ran_at, _STATUSES.index(run.status), run.latency_ms, *([] if run.failed is None else [run.failed])]
    try:
        # An array and not a map: with a hundred runs per canary, field names would be most of the bytes.
        payload = msgspec.msgpack.encode(values)
    except (TypeError, OverflowError) as error:
        raise Invalid(f"values of a run must be plain data: {error}") from None
    if len(payload) > RUN_BYTES_MAX:
        raise Invalid(f"a run takes at most {RUN_BYTES_MAX} bytes, not {len(payload)}; store fewer hits")
    return payload


def decode_run(payload: bytes) -> CanaryRun:
    ran_at, position, latency_ms, *failed = msgspec.msgpack.decode(payload)
    return CanaryRun(ran_at, _STATUSES[position], latency_ms, failed[0] if failed else None)


def _log(canary_id: str, limit: int) -> TransactionBody[LogState]:
    (log,) = yield from read_many(ReadLog(log_name(CANARY_RUNS_LOG, canary_id), limit))
    state: LogState = log
    return state
