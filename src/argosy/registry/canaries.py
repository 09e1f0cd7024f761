"""Searches that must keep their answers: what is asked, how often, and what must be true of the answer."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from argosy.base.errors import Conflict, Invalid
from argosy.registry import crud
from argosy.registry.crud import check_key, check_unique, stored
from argosy.registry.rows import Canary
from argosy.registry.tables import CANARIES, CANARY_RUNS_LOG, named
from argosy.registry.transaction import (
    Delete,
    DropLog,
    Get,
    Now,
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
    """A new canary; Conflict if its id or its name is taken."""
    check_key(CANARIES, (canary_id,))
    clock, known = yield from read_many(Now(), Get(CANARIES, (canary_id,)))
    if known is not None:
        raise Conflict(f"canary {canary_id!r} already exists")
    spelled = tuple(json.dumps(assertion, separators=(",", ":"), ensure_ascii=False) for assertion in assertions)
    canary = Canary(canary_id, name, index_uid, interval_s, query, spelled, is_enabled, clock)
    _check(canary)
    yield from check_unique(CANARIES, canary)
    return (yield from stored(CANARIES, canary))


@transaction
def update(canary: Canary) -> TransactionBody[Canary]:
    """Writes a canary back that was read before; Conflict if somebody else was first."""
    _check(canary)
    if canary.version == 0:
        raise Invalid(f"canary {canary.canary_id!r} was never read: create it")
    return (yield from crud.put(CANARIES, canary))


@transaction
def enable(canary_id: str, is_enabled: bool) -> TransactionBody[Canary]:
    canary = yield from crud.known(CANARIES, canary_id)
    return (yield from stored(CANARIES, replace(canary, is_enabled=is_enabled)))


@transaction
def read(canary_id: str) -> TransactionBody[Canary | None]:
    check_key(CANARIES, (canary_id,))
    return (yield from get(CANARIES, canary_id))


@transaction
def read_by_name(name: str) -> TransactionBody[Canary | None]:
    check_key(CANARIES, (name,))
    found = yield from find(CANARIES, "name", name, limit=1)
    return found[0] if found else None


@transaction
def everything(*, is_enabled: bool | None = None) -> TransactionBody[list[Canary]]:
    """All canaries, or those that run, or those that do not; oldest first."""
    canaries = yield from crud.every(CANARIES)
    return [canary for canary in canaries if is_enabled is None or canary.is_enabled == is_enabled]


@transaction
def remove(canary_id: str) -> TransactionBody[bool]:
    """Deletes a canary together with its runs; False if there is none."""
    check_key(CANARIES, (canary_id,))
    canary = yield from get(CANARIES, canary_id)
    if canary is None:
        return False
    yield from commit(Delete(CANARIES, canary), DropLog(named(CANARY_RUNS_LOG, canary_id)))
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
