"""Aliases of indexes: a flip is atomic, and the last states are retained so that it can be undone.

A single alias is read and written; a multi alias is read only and names several indexes.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from argosy.base.errors import Conflict, Invalid
from argosy.registry import crud
from argosy.registry.crud import check_key, check_version, put_row, require
from argosy.registry.rows import AliasKind, IndexAlias
from argosy.registry.tables import ALIASES
from argosy.registry.transaction import Delete, Get, Now, TransactionBody, commit, get, now, read_many, transaction

# The design's bound. Each state is part of the row, which every request reads.
HISTORY_MAX = 10  # earlier states that an alias retains
TARGETS_MAX = 256  # indexes behind one multi alias


@dataclass(frozen=True)
class ResolvedAlias:
    """Targets of an alias at one instant, used for the whole of a request."""

    uids: tuple[str, ...]
    version: int
    is_writable: bool


@dataclass(frozen=True)
class AliasState:
    """An earlier state of an alias."""

    uids: tuple[str, ...]
    version: int
    flipped_at: int  # when it was replaced


@transaction
def create(name: str, targets: Sequence[str], kind: AliasKind = AliasKind.SINGLE) -> TransactionBody[IndexAlias]:
    """Creates an alias. Raises `Conflict` if it exists."""
    check_key(ALIASES, (name,))
    clock, existing = yield from read_many(Now(), Get(ALIASES, (name,)))
    if existing is not None:
        raise Conflict(f"alias {name!r} already exists")
    empty = IndexAlias(name, AliasKind(kind), None, (), clock)
    return (yield from put_row(ALIASES, _with_targets(empty, targets)))


@transaction
def flip(
    name: str,
    targets: Sequence[str],
    *,
    kind: AliasKind = AliasKind.SINGLE,
    expected_version: int | None = None,
    keep: int = HISTORY_MAX,
) -> TransactionBody[IndexAlias]:
    """Changes the targets and retains the old ones. Raises `Conflict` if the kind or version differs."""
    if not 0 <= keep <= HISTORY_MAX:
        raise Invalid(f"an alias retains 0 to {HISTORY_MAX} states, not {keep}")
    clock = yield from now()
    alias = yield from require(ALIASES, name)
    # Requires the caller to name the kind, so that a multi alias is never turned into a writable one by mistake.
    if alias.kind is not kind:
        raise Conflict(f"alias {name!r} is {alias.kind}: it cannot be flipped as {kind}")
    if expected_version is not None:
        check_version(ALIASES, (name,), alias, expected_version)
    # The state before the flip, so that it can be undone by flipping to it.
    history = (*alias.history, _encode_state(alias, clock))
    return (
        yield from put_row(
            ALIASES, replace(_with_targets(alias, targets), history=history[max(0, len(history) - keep) :])
        )
    )


@transaction
def remove(name: str, *, expected_version: int | None = None) -> TransactionBody[bool]:
    """Deletes an alias. Returns False if there is none."""
    check_key(ALIASES, (name,))
    alias = yield from get(ALIASES, name)
    if alias is None:
        return False
    if expected_version is not None:
        check_version(ALIASES, (name,), alias, expected_version)
    yield from commit(Delete(ALIASES, alias))
    return True


@transaction
def read(name: str) -> TransactionBody[IndexAlias | None]:
    check_key(ALIASES, (name,))
    return (yield from get(ALIASES, name))


@transaction
def resolve(name: str) -> TransactionBody[ResolvedAlias | None]:
    """The indexes behind a name, or None if it is not an alias. A request resolves once and uses the result to its end,
    so that a flip never gives it a part of each."""
    alias = yield from read(name)
    return None if alias is None else ResolvedAlias(uids_of(alias), alias.version, alias.kind is AliasKind.SINGLE)


@transaction
def everything() -> TransactionBody[list[IndexAlias]]:
    """All aliases, oldest first."""
    return (yield from crud.every(ALIASES))


def uids_of(alias: IndexAlias) -> tuple[str, ...]:
    return alias.target_uids if alias.current_uid is None else (alias.current_uid,)


def history_of(alias: IndexAlias) -> tuple[AliasState, ...]:
    """Earlier states, newest last."""
    states = map(json.loads, alias.history)
    return tuple(AliasState(tuple(state["uids"]), state["version"], state["at"]) for state in states)


def _encode_state(alias: IndexAlias, clock: int) -> str:
    state = {"uids": uids_of(alias), "version": alias.version, "at": clock}
    return json.dumps(state, separators=(",", ":"), ensure_ascii=False)


def _with_targets(alias: IndexAlias, targets: Sequence[str]) -> IndexAlias:
    # A text is a sequence of texts, too: "docs" would become four targets.
    if isinstance(targets, str) or not 1 <= len(targets) <= TARGETS_MAX or not all(targets):
        raise Invalid(f"an alias names 1 to {TARGETS_MAX} indexes, not {targets!r:.80}")
    if alias.kind is AliasKind.MULTI:
        return replace(alias, target_uids=tuple(targets))
    if len(targets) != 1:
        raise Invalid(f"alias {alias.name!r} is single: it names one index, not {len(targets)}")
    return replace(alias, current_uid=targets[0])
