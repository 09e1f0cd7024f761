"""Moves: every operation of the registry with small random arguments, so that moves interact.

Names, versions, fences and numbers come from a handful, so a random sequence often uses what an earlier move created.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from typing import Any

from hypothesis import strategies as st

from argosy.registry import (
    aliases,
    canaries,
    catalog,
    changes,
    crud,
    idempotency,
    jobs,
    leadership,
    limits,
    policies,
    scoped_keys,
    sessions,
    settings_versions,
    tasks,
)
from argosy.registry.rows import AliasKind, ControlJobState, RolloverPolicy, RunStatus, TaskStatus
from argosy.registry.table import Table
from argosy.registry.tables import ROLLOVER_POLICIES, SEARCH_UI_CONFIG, TABLES, TTL_POLICIES
from argosy.registry.transaction import Transaction, TransactionBody, transaction

NEVER_MS = 1 << 50  # a time that no test reaches
HOUR_MS = 3_600_000

names = st.sampled_from(["a", "_b:\x1f%ü"])
some = st.sampled_from(["x", "y"])
small = st.integers(0, 3)
fences = st.integers(1, 2)
worker = st.sampled_from(["x", "x", "x", "y"])
versions = st.none() | st.integers(1, 3)
texts = st.none() | st.sampled_from(["", "text", "long " * 30])
maps = st.dictionaries(names, st.none() | st.integers(-9, 9) | st.text('ab"\\é', max_size=80), max_size=3)
bodies = st.sampled_from([b"a" * 32, b"b" * 32])
spans = st.sampled_from([HOUR_MS, HOUR_MS // 2])
ends = st.sampled_from([0, NEVER_MS])
bits = st.booleans()


@dataclass(frozen=True)
class Move:
    """One operation with its arguments; `begin` creates a new transaction each time."""

    name: str
    begin: Callable[[], Transaction[Any]]
    is_timed: bool = False  # the answer itself is a span of time

    def __repr__(self) -> str:
        assert isinstance(self.begin, partial)
        return f"{self.name}({self.begin.args}, {self.begin.keywords})"


def move(operation: Callable[..., Transaction[Any]], *args: Any, is_timed: bool = False, **kwargs: Any) -> Any:
    """A strategy: the operation with arguments drawn from strategies."""
    name = f"{operation.__module__.rpartition('.')[2]}.{operation.__name__}"

    def to_move(drawn: tuple[tuple[Any, ...], dict[str, Any]]) -> Move:
        return Move(name, partial(operation, *drawn[0], **drawn[1]), is_timed)

    return st.tuples(st.tuples(*args), st.fixed_dictionaries(kwargs)).map(to_move)


@transaction
def rewrite_row(table: Table[Any], key: str, change: Mapping[str, Any]) -> TransactionBody[Any]:
    """A read-modify-write of one row, as an editor does it."""
    row = yield from crud.read(table, key)
    if row is None:
        return None
    values = {item.name: getattr(row, item.name) for item in fields(row)} | dict(change)
    return (yield from crud.put(table, type(row)(**values)))


@transaction
def put_rollover(name: str, pattern: str, is_enabled: bool) -> TransactionBody[Any]:
    policy = RolloverPolicy(name, "write", "read", pattern, {"max_docs": 3}, {}, {}, is_enabled)
    return (yield from policies.put_rollover(policy))


@transaction
def list_rows(number: int) -> TransactionBody[Any]:
    listed = [table for table in TABLES if any(index.name == "all" for index in table.indexes)]
    return (yield from crud.every(listed[number % len(listed)]))


TASKS = st.one_of(
    move(tasks.next_uid),
    move(
        tasks.insert, names, st.integers(1, 5), status=st.sampled_from(TaskStatus), node_tasks=st.none(),
        index_uid=st.none() | some, task_type=st.none() | some,
    ),
    move(tasks.set_status, names, st.sampled_from(TaskStatus), texts),
    move(tasks.set_node_task, names, some, some, texts),
    move(
        tasks.page,
        st.builds(
            tasks.TaskFilter,
            statuses=st.none() | st.lists(st.sampled_from(TaskStatus), max_size=2, unique=True),
            index_uids=st.none() | st.lists(some, max_size=2, unique=True),
            types=st.none() | st.lists(some, max_size=1),
            uids=st.none() | st.lists(st.integers(1, 5), max_size=3),
        ),
        from_uid=st.none() | st.integers(1, 5),
        limit=st.integers(1, 3),
    ),
    move(tasks.count, st.none() | st.sampled_from(TaskStatus)),
    move(tasks.prune, ends, limit=st.integers(1, 3)),
    move(tasks.delete_many, st.lists(names, max_size=3)),
)  # fmt: skip
JOBS = st.one_of(
    move(
        jobs.enqueue, names, some, maps, priority=st.integers(-1, 1), not_before=ends,
        max_attempts=st.integers(1, 2), dedupe_key=st.none() | some,
    ),
    move(jobs.enqueue, names, some, maps),
    move(jobs.claim, worker, lease_ms=spans, types=st.none() | st.lists(some, max_size=2)),
    move(jobs.claim, worker),
    move(jobs.heartbeat, names, worker, fences, lease_ms=spans, progress=st.none() | maps),
    move(jobs.complete, names, worker, fences, st.none() | maps),
    move(jobs.fail, names, worker, fences, st.just("broken"), retry_at=st.none() | ends),
    move(jobs.cancel, names),
    move(jobs.split, names, worker, fences, st.lists(maps, min_size=1, max_size=3)),
    move(jobs.reap),
    move(jobs.prune, ends),
    move(jobs.count, st.sampled_from(ControlJobState)),
    move(
        jobs.list_jobs,
        state=st.none() | st.sampled_from(ControlJobState), type=st.none() | some, parent=st.none() | names,
        limit=st.integers(1, 4),
    ),
)  # fmt: skip
NAMES_AND_LEASES = st.one_of(
    move(aliases.create, names, st.lists(some, min_size=1, max_size=2), st.sampled_from(AliasKind)),
    move(
        aliases.flip, names, st.lists(some, min_size=1, max_size=2), kind=st.sampled_from(AliasKind),
        expected_version=versions, keep=st.sampled_from([0, 2, 10]),
    ),
    move(aliases.remove, names, expected_version=versions),
    move(aliases.resolve, names),
    move(leadership.acquire, names, worker, spans),
    move(leadership.renew, names, worker, fences, spans),
    move(leadership.release, names, worker, fences),
    move(leadership.leader, names),
    move(leadership.under, names, worker, fences, st.builds(aliases.flip, names, st.just(["under"]))),
    move(leadership.start_operation, names, some, some, phase=some, fence=fences, state=maps),
    move(leadership.advance_operation, names, fences, some, st.none() | maps),
    move(leadership.pause_operation, names, fences, texts),
    move(leadership.finish_operation, names, fences, texts),
    move(leadership.resume_operation, some, fences),
    move(leadership.prune_operations, ends),
)  # fmt: skip
PEOPLE = st.one_of(
    move(
        sessions.upsert, names, last_write_task_id=texts, last_write_at=st.none() | small,
        pinned_groups=st.dictionaries(some, small, max_size=2), min_settings_version=small, ttl_ms=spans,
        sessions_max=st.integers(1, 3),
    ),
    move(sessions.pin, names, some, st.none() | small),
    move(sessions.touch, names, spans),
    move(sessions.read, names),
    move(sessions.end, names),
    move(sessions.count),
    move(idempotency.begin, names, bodies, spans),
    move(idempotency.finish, names, some),
    move(idempotency.abandon, names),
    move(
        sessions.insert_admin, names, csrf_token=some, admin_key_hash=some, ttl_ms=spans, user_agent=texts,
        source_ip=texts,
    ),
    move(sessions.read_admin, names),
    move(sessions.revoke_admin, names),
    move(sessions.revoke_admins, some),
    move(sessions.prune_admins),
    move(policies.put_tenant, some.map(policies.hash_api_key), some, st.none() | small, expected_version=versions),
    move(policies.remove_tenant, some.map(policies.hash_api_key)),
    move(limits.hit_search_ui, names, limit=st.integers(1, 3), window_ms=spans),
    move(limits.hit_admin_login, names, limit=st.integers(1, 3), window_ms=spans),
    move(limits.login_failed, names),
    move(limits.login_succeeded, names),
    move(limits.login_locked_ms, names, is_timed=True),
    move(limits.is_first_seen, some, names),
)  # fmt: skip
WATCHES = st.one_of(
    move(
        canaries.create, names, some, index_uid=some, interval_s=st.integers(1, 9), query=maps,
        assertions=st.lists(st.builds(dict, type=some), max_size=2), is_enabled=bits,
    ),
    move(rewrite_row, st.just(TABLES[7]), names, st.fixed_dictionaries({"name": some})),
    move(canaries.enable, names, bits),
    move(canaries.read_by_name, some),
    move(canaries.everything, is_enabled=st.none() | bits),
    move(canaries.remove, names),
    move(
        canaries.append_run, names, st.sampled_from(RunStatus), small,
        failed=st.none() | maps, keep=st.integers(1, 3),
    ),
    move(canaries.newest_runs, names, st.integers(1, 4)),
    move(canaries.last_failure, names),
    move(canaries.run_stats, names),
    move(changes.next_seq, some),
    move(changes.last_seq, some),
    move(changes.advance, names, some, expected_seq=small, new_seq=st.integers(1, 4)),
    move(changes.cursors, names),
    move(changes.remove_sink, names),
    move(changes.push, names, st.binary(min_size=1, max_size=6), st.integers(6, 12)),
    move(changes.pop, names, st.integers(1, 3)),
    move(changes.overflow, names),
)  # fmt: skip
CATALOG = st.one_of(
    move(settings_versions.advance, names, some, small),
    move(settings_versions.bump, names),
    move(settings_versions.nodes_of, names),
    move(settings_versions.indexes),
    move(settings_versions.delete_index, names),
    move(settings_versions.delete_node, some),
    move(catalog.add, names, some, branches=st.just(("main",)), is_pinned=bits, replicas=small, max_bids=st.none()),
    move(catalog.record_indexed, names, commit_hash=some, footprint_bytes=small),
    move(catalog.record_index_failure, names, error=some),
    move(catalog.pin, names, bits),
    move(catalog.request_reindex, names),
    move(catalog.record_push, names),
    move(rewrite_row, st.just(TABLES[13]), names, st.fixed_dictionaries({"url": some, "replicas": small})),
    move(catalog.remove, names, expected_version=versions),
    move(catalog.read_by_url, some),
    move(put_rollover, names, some, bits),
    move(rewrite_row, st.just(ROLLOVER_POLICIES), names, st.fixed_dictionaries({"retention": maps})),
    move(policies.record_rollover, names, texts),
    move(policies.put_search_ui, names, maps, expected_version=st.none() | small),
    move(
        policies.put_ttl, names, sweep_interval_s=st.integers(1, 9), max_deletes_per_sweep=st.integers(1, 9),
        is_enabled=bits, expected_version=st.none() | small,
    ),
    move(crud.delete, st.sampled_from([SEARCH_UI_CONFIG, TTL_POLICIES, ROLLOVER_POLICIES]), names),
    move(scoped_keys.rotate, names, some, expected_generation=small),
    move(scoped_keys.observe, some, names, small, spans),
    move(scoped_keys.gate, names),
    move(scoped_keys.revoke_previous, names, fences),
    move(scoped_keys.heartbeat_pod, some),
    move(scoped_keys.live_pods),
    move(scoped_keys.remove_pod, some),
    move(list_rows, st.integers(0, 30)),
)  # fmt: skip

_TIME = re.compile(r'"at":\d+')


def timeless(answer: Any, *, is_timed: bool = False) -> Any:
    """A result without its times, for stores with a clock of their own."""
    if is_dataclass(answer) and not isinstance(answer, type):
        return (
            type(answer).__name__,
            {
                item.name: _is_set(getattr(answer, item.name))
                if _is_time(item.name)
                else timeless(getattr(answer, item.name))
                for item in fields(answer)
            },
        )
    if isinstance(answer, Mapping):
        return {key: timeless(value) for key, value in answer.items()}
    if isinstance(answer, tuple | list):
        return [timeless(value) for value in answer]
    if isinstance(answer, str):
        return _TIME.sub('"at":0', answer)
    return _is_set(answer) if is_timed else answer


def _is_time(name: str) -> bool:
    return name.endswith("_at") or name in ("due", "retry_after_ms")


def _is_set(value: Any) -> bool | None:
    return None if value is None else bool(value)
