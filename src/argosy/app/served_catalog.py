"""The catalog of a working set: set to what `argosy up` was given, and back again if the start fails.

Repositories that were added to the set while it ran (`argosy repo add`) are not lost when it is started without
`--resume`: they are written to `set-aside.json`, a list as `argosy repo import` reads it, and `--resume` adds them
again.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from argosy.base.errors import Conflict, Invalid
from argosy.registry import catalog
from argosy.registry.ports import RegistryStore
from argosy.registry.rows import RepositoryRow
from argosy.search.catalog.addresses import Address
from argosy.search.catalog.naming import unique_names

SET_ASIDE = "set-aside.json"


@dataclass(frozen=True)
class CatalogChange:
    """What a start has changed, so that it can be undone."""

    added: tuple[str, ...] = ()
    removed: tuple[RepositoryRow, ...] = ()
    set_aside: tuple[str, ...] = ()  # names of those among `removed` that `--resume` adds again


async def add_to_catalog(registry: RegistryStore, addresses: Sequence[Address], name: str | None) -> CatalogChange:
    """Adds what is not there yet, and removes nothing: the catalog is shared with others."""
    by_url = {row.url: row for row in await registry.run(catalog.everything())}
    for address in addresses:
        row = by_url.get(address.url)
        if row is not None and name not in (None, row.repo_id):
            raise Conflict(f"{address.url} is already in the catalog as {row.repo_id!r}: leave out --name")
    new = [address for address in addresses if address.url not in by_url]
    names = _names(new, name, {row.repo_id for row in by_url.values()})
    return await _apply(registry, [], list(zip(names, new, strict=True)))


async def set_catalog(
    registry: RegistryStore, addresses: Sequence[Address], name: str | None, folder: Path, *, resume: bool
) -> CatalogChange:
    """Makes the catalog what was named; with `resume`, what was named and all that was in it before."""
    rows = await registry.run(catalog.everything())
    urls = {address.url for address in addresses}
    named = [row for row in rows if row.url in urls and name in (None, row.repo_id)]
    renamed = [row for row in rows if row.url in urls and row not in named]
    others = [row for row in rows if row.url not in urls]
    aside = _read_aside(folder / SET_ASIDE, urls | {row.url for row in others})
    kept = [*named, *(others if resume else ())]
    again = _with_unique_names(aside, {row.repo_id for row in kept}) if resume else []
    new = [address for address in addresses if address.url not in {row.url for row in named}]
    names = _names(new, name, {row.repo_id for row in [*kept, *again]})
    if not resume and others:
        _write_aside(folder / SET_ASIDE, _with_unique_names([*others, *aside], set()))
    removed = [*renamed, *(() if resume else others)]
    change = await _apply(registry, removed, list(zip(names, new, strict=True)), again)
    return replace(change, set_aside=() if resume else tuple(row.repo_id for row in [*aside, *others]))


def forget_set_aside(folder: Path) -> None:
    """To be called once a start with `resume` has succeeded: one that fails has to leave the list for the next."""
    (folder / SET_ASIDE).unlink(missing_ok=True)


async def undo(registry: RegistryStore, change: CatalogChange) -> None:
    """Makes the catalog what it was before `change`."""
    for repo_id in change.added:
        await registry.run(catalog.remove(repo_id))
    for row in change.removed:
        await _add(registry, row)


def _names(new: Sequence[Address], name: str | None, taken: set[str]) -> list[str]:
    if name is None or not new:
        return unique_names(new, taken)
    if name in taken:
        raise Conflict(f"another repository is called {name!r}: give --name another one")
    return [name]


async def _apply(
    registry: RegistryStore,
    removed: Sequence[RepositoryRow],
    new: Sequence[tuple[str, Address]],
    again: Sequence[RepositoryRow] = (),
) -> CatalogChange:
    """All of it or nothing."""
    done = CatalogChange()
    try:
        for row in removed:
            await registry.run(catalog.remove(row.repo_id))
            done = replace(done, removed=(*done.removed, row))
        for row in [*(RepositoryRow(name, address.url) for name, address in new), *again]:
            await _add(registry, row)
            done = replace(done, added=(*done.added, row.repo_id))
    except BaseException:
        await undo(registry, done)
        raise
    return done


async def _add(registry: RegistryStore, row: RepositoryRow) -> None:
    await registry.run(
        catalog.add(
            row.repo_id,
            row.url,
            branches=row.branches,
            is_pinned=row.is_pinned,
            replicas=row.replicas,
            max_bids=row.max_bids,
        )
    )


def _with_unique_names(rows: Sequence[RepositoryRow], taken: set[str]) -> list[RepositoryRow]:
    """The same repositories, a number behind each name that is in use."""
    found, used = [], set(taken)
    for row in rows:
        name, number = row.repo_id, 1
        while name in used:
            number += 1
            name = f"{row.repo_id}-{number}"
        used.add(name)
        found.append(replace(row, repo_id=name))
    return found


class _Listed(msgspec.Struct, frozen=True):
    """An entry of the file, as `argosy repo import` reads it."""

    name: str
    url: str
    branches: tuple[str, ...] = ()
    is_pinned: bool = False
    replicas: int = 0


def _read_aside(path: Path, known: set[str]) -> list[RepositoryRow]:
    """What was set aside before, less what is in the catalog again."""
    try:
        entries = msgspec.json.decode(path.read_bytes(), type=list[_Listed])
    except FileNotFoundError:
        return []
    except msgspec.DecodeError as why:
        raise Invalid(f"{str(path)!r} is damaged ({why}): remove it") from why
    rows = (RepositoryRow(each.name, each.url, each.branches, each.is_pinned, each.replicas) for each in entries)
    return [row for row in rows if row.url not in known]


def _write_aside(path: Path, rows: Sequence[RepositoryRow]) -> None:
    entries = [_Listed(row.repo_id, row.url, row.branches, row.is_pinned, row.replicas) for row in rows]
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(msgspec.json.encode(entries))
    os.replace(temporary, path)
