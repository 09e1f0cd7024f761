"""Sets the catalog of a working set to the arguments of `argosy up`, and restores it if the start fails.

Repositories that `argosy repo add` added while the set was served are not lost when it is started without `--resume`:
they are written to `set-aside.json`, in the format of `argosy repo import`, and `--resume` adds them again.
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
from argosy.search.catalog.addresses import Address, unique_names

SET_ASIDE = "set-aside.json"


@dataclass(frozen=True)
class CatalogChange:
    """The changes of a start, for `undo`."""

    added: tuple[str, ...] = ()
    removed: tuple[RepositoryRow, ...] = ()
    set_aside: tuple[str, ...] = ()  # names of those among `removed` that `--resume` adds again


async def add_to_catalog(registry: RegistryStore, addresses: Sequence[Address], name: str | None) -> CatalogChange:
    """Adds missing repositories and removes none, because the catalog is shared with other processes."""
    by_url = {row.url: row for row in await registry.run(catalog.everything())}
    for address in addresses:
        row = by_url.get(address.url)
        if row is not None and name not in (None, row.repo_id):
            raise Conflict(f"{address.url} is already in the catalog as {row.repo_id!r}; omit --name")
    # By URL: the same address under another name is already there.
    new = [address for address in addresses if address.url not in by_url]
    names = _names(new, name, {row.repo_id for row in by_url.values()})
    return await _apply(registry, [], list(zip(names, new, strict=True)))


async def set_catalog(
    registry: RegistryStore, addresses: Sequence[Address], name: str | None, folder: Path, *, resume: bool
) -> CatalogChange:
    """Sets the catalog to the addresses; with `resume`, to the addresses and its previous content."""
    rows = await registry.run(catalog.everything())
    urls = {address.url for address in addresses}
    named = [row for row in rows if row.url in urls and name in (None, row.repo_id)]
    renamed = [row for row in rows if row.url in urls and row not in named]
    others = [row for row in rows if row.url not in urls]
    aside = _read_aside(folder / SET_ASIDE, urls | {row.url for row in others})
    retained = [*named, *(others if resume else ())]
    again = _with_unique_names(aside, {row.repo_id for row in retained}) if resume else []
    new = [address for address in addresses if address.url not in {row.url for row in named}]
    names = _names(new, name, {row.repo_id for row in [*retained, *again]})
    # They were added with `argosy repo add`, so dropping them without a way back would lose work.
    if not resume and others:
        # With the earlier ones: a second start without `--resume` must not lose what the first has set aside.
        _write_aside(folder / SET_ASIDE, _with_unique_names([*others, *aside], set()))
    removed = [*renamed, *(() if resume else others)]
    change = await _apply(registry, removed, list(zip(names, new, strict=True)), again)
    return replace(change, set_aside=() if resume else tuple(row.repo_id for row in [*aside, *others]))


def forget_set_aside(folder: Path) -> None:
    """Deletes the list after a successful start with `resume`; a failed start must leave it for the next one."""
    (folder / SET_ASIDE).unlink(missing_ok=True)


async def undo(registry: RegistryStore, change: CatalogChange) -> None:
    """Reverts `change`."""
    for repo_id in change.added:
        await registry.run(catalog.remove(repo_id))
    for row in change.removed:
        await _add(registry, row)


def _names(new: Sequence[Address], name: str | None, taken: set[str]) -> list[str]:
    if name is None or not new:
        return unique_names(new, taken)
    if name in taken:
        raise Conflict(f"name {name!r} is taken by another repository; pass another --name")
    return [name]


async def _apply(
    registry: RegistryStore,
    removed: Sequence[RepositoryRow],
    new: Sequence[tuple[str, Address]],
    again: Sequence[RepositoryRow] = (),
) -> CatalogChange:
    """Applies all changes, or none if one fails."""
    done = CatalogChange()
    try:
        for row in removed:
            await registry.run(catalog.remove(row.repo_id))
            done = replace(done, removed=(*done.removed, row))
        for row in [*(RepositoryRow(name, address.url) for name, address in new), *again]:
            await _add(registry, row)
            done = replace(done, added=(*done.added, row.repo_id))
    # All or nothing: a failed start must not leave half of its arguments in the catalog.
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
    """The same repositories; a number is appended to each name that is taken."""
    found, used = [], set(taken)
    for row in rows:
        name, number = row.repo_id, 1
        while name in used:
            number += 1
            name = f"{row.repo_id}-{number}"
        used.add(name)
        found.append(replace(row, repo_id=name))
    return found


class _SetAsideEntry(msgspec.Struct, frozen=True):
    """An entry of the file, as `argosy repo import` reads it."""

    name: str
    url: str
    branches: tuple[str, ...] = ()
    is_pinned: bool = False
    replicas: int = 0


def _read_aside(path: Path, known: set[str]) -> list[RepositoryRow]:
    """The repositories in the file, without those that are in the catalog again."""
    try:
        entries = msgspec.json.decode(path.read_bytes(), type=list[_SetAsideEntry])
    except FileNotFoundError:
        return []
    except msgspec.DecodeError as why:
        raise Invalid(f"cannot parse {str(path)!r}: {why}; remove the file") from why
    rows = (RepositoryRow(each.name, each.url, each.branches, each.is_pinned, each.replicas) for each in entries)
    return [row for row in rows if row.url not in known]


def _write_aside(path: Path, rows: Sequence[RepositoryRow]) -> None:
    entries = [_SetAsideEntry(row.repo_id, row.url, row.branches, row.is_pinned, row.replicas) for row in rows]
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(msgspec.json.encode(entries))
    # Renamed into place, so that a crash leaves the old list or the new one.
    os.replace(temporary, path)
