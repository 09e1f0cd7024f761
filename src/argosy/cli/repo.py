"""`argosy repo`: what should be searchable. Each command writes to the registry; the nodes follow it by themselves."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from argosy.base.errors import Conflict, Invalid, NotFound
from argosy.cli.commands import Group
from argosy.cli.completion import complete_path
from argosy.cli.output import json_option, print_json, print_table, progress
from argosy.cli.settings import config_option, load

if TYPE_CHECKING:
    from argosy.base.settings import Loaded
    from argosy.registry.ports import RegistryStore
    from argosy.registry.rows import RepositoryRow
    from argosy.registry.settings import RegistrySettings

C = TypeVar("C", bound=Callable[..., Any])
T = TypeVar("T")

FILE = click.Path(dir_okay=False, allow_dash=True)


def catalog_options(command: C) -> C:
    """Adds what names a catalog: `--registry`, `--data`, `--config`, and `--json`."""
    for add in (
        json_option,
        config_option,
        click.option(
            "--data", metavar="DIR", help="Data directory of an argosy up; by default of the one that is running."
        ),
        click.option("--registry", metavar="URL", help="Where the registry is; as in the settings."),
    ):
        command = add(command)
    return command


@click.group(cls=Group)
def repo() -> None:
    """What should be searchable."""


@repo.command()
@click.argument("addresses", nargs=-1, required=True, metavar="URL|PATH…", shell_complete=complete_path)
@click.option("--name", help="What to call it; by default it follows from the address. For one address only.")
@click.option("--branch", "branches", multiple=True, help="A branch to index, may be repeated; by default HEAD.")
@click.option("--pin", is_flag=True, help="Never evict it from memory.")
@click.option("--replicas", type=int, default=0, help="Further nodes that keep it ready.")
@catalog_options
def add(
    addresses: tuple[str, ...],
    name: str | None,
    branches: tuple[str, ...],
    pin: bool,
    replicas: int,
    registry: str | None,
    data: str | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Wish for repositories to be searchable. Nodes bid for them, fetch and index them.

    Paths on this machine are taken where the nodes' settings allow it (fetch.allow_local).
    """
    from argosy.cli.repo_address import typed
    from argosy.registry import catalog

    if name is not None and len(addresses) > 1:
        raise Invalid("--name is for one address: leave it out, or add them one by one")
    found = [typed(text) for text in addresses]

    async def wish(store: "RegistryStore") -> tuple[list["RepositoryRow"], list[str]]:
        rows, refused = [], []
        for address in found:
            try:
                wished = catalog.add(
                    name or address.name, address.url, branches=branches, is_pinned=pin, replicas=replicas
                )
                rows.append(await store.run(wished))
            except Conflict as error:  # the others are added all the same, and told
                refused.append(str(error))
        return rows, refused

    rows, refused = ask(config, registry, data, wish)
    if as_json and rows:
        print_json([asdict(row) for row in rows])
    elif not as_json:
        for row in rows:
            click.echo(f"{row.repo_id} is wished for")
    if refused:
        raise Conflict("; ".join(refused))


@repo.command("list")
@catalog_options
def list_repositories(registry: str | None, data: str | None, config: Path | None, as_json: bool) -> None:
    """Everything in the catalog: what is wished, and what is known since it was last indexed."""
    from argosy.registry import catalog

    # By name: what one command adds within a millisecond has no order of its own.
    rows = ask(config, registry, data, lambda store: store.run(catalog.everything()))
    rows.sort(key=lambda row: row.repo_id)
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    columns = ("repository", "address", "branches", "pinned", "replicas", "memory MB", "commit", "state")
    print_table(columns, [_line(row) for row in rows], empty="the catalog is empty: argosy repo add URL")


def _line(row: "RepositoryRow") -> list[object]:
    size = None if row.footprint_bytes is None else round(row.footprint_bytes / 1e6, 1)
    state = "indexed" if row.last_indexed_at else "new"
    if row.last_error:
        state = f"failed {row.failures}×: {row.last_error}"
    branches = ", ".join(row.branches) or "HEAD"
    return [row.repo_id, row.url, branches, row.is_pinned, row.replicas, size, (row.last_commit or "")[:10], state]


@repo.command()
@click.argument("name")
@catalog_options
def pin(name: str, registry: str | None, data: str | None, config: Path | None, as_json: bool) -> None:
    """Never evict a repository from memory."""
    from argosy.registry import catalog

    _change(name, lambda store: store.run(catalog.pin(name, True)), "pinned", registry, data, config, as_json)


@repo.command()
@click.argument("name")
@catalog_options
def unpin(name: str, registry: str | None, data: str | None, config: Path | None, as_json: bool) -> None:
    """Let a repository be evicted when memory is short."""
    from argosy.registry import catalog

    _change(name, lambda store: store.run(catalog.pin(name, False)), "unpinned", registry, data, config, as_json)


@repo.command()
@click.argument("name")
@catalog_options
def reindex(name: str, registry: str | None, data: str | None, config: Path | None, as_json: bool) -> None:
    """Ask the holders of a repository to index it anew, whether or not it has new commits."""
    from argosy.registry import catalog

    change = lambda store: store.run(catalog.request_reindex(name))  # noqa: E731
    _change(name, change, "to be indexed anew", registry, data, config, as_json)


@repo.command()
@click.argument("name")
@catalog_options
def drop(name: str, registry: str | None, data: str | None, config: Path | None, as_json: bool) -> None:
    """Take a repository out of the catalog; it vanishes from answers at once."""
    from argosy.registry import catalog

    async def remove(store: "RegistryStore") -> "RepositoryRow":
        known = await store.run(catalog.read(name))
        if known is None or not await store.run(catalog.remove(name)):
            raise NotFound(name)
        return known

    _change(name, remove, "no longer wished for", registry, data, config, as_json)


@repo.command("import")
@click.argument("file", type=FILE)
@catalog_options
def import_repositories(file: str, registry: str | None, data: str | None, config: Path | None, as_json: bool) -> None:
    """Wish for everything that FILE lists; `-` is standard input.

    One address a line, with its branches behind it if they matter; `#` begins a comment. Or a JSON array of objects
    with `url` and, if wanted, `name`, `branches`, `is_pinned`, `replicas`. All of it is checked before anything is
    written. What the catalog already has is left as it is.
    """
    from argosy.registry import catalog
    from argosy.search.catalog.import_list import read_list

    try:
        with click.open_file(file, encoding="utf-8") as stream:
            text = stream.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{file!r} cannot be read as text ({error}): check it, nothing was imported") from error
    wishes = read_list(text)

    async def wish(store: "RegistryStore") -> dict[str, int]:
        counts = {"added": 0, "already there": 0}
        with progress("importing") as tell:
            for done, each in enumerate(wishes, start=1):
                try:
                    await store.run(
                        catalog.add(
                            each.name,
                            each.url,
                            branches=each.branches,
                            is_pinned=each.is_pinned,
                            replicas=each.replicas,
                        )
                    )
                    counts["added"] += 1
                except Conflict:
                    counts["already there"] += 1
                tell(done / len(wishes), f"importing {done} of {len(wishes)}")
        return counts

    counts = ask(config, registry, data, wish)
    if as_json:
        print_json(counts)
    else:
        click.echo(", ".join(f"{count} {what}" for what, count in counts.items()))


def _change(
    name: str,
    change: "Callable[[RegistryStore], Awaitable[RepositoryRow]]",
    said: str,
    registry: str | None,
    data: str | None,
    config: Path | None,
    as_json: bool,
) -> None:
    try:
        row = ask(config, registry, data, change)
    except NotFound as error:
        known = "`argosy repo list` shows those it has"
        raise NotFound(f"the catalog has no repository {name!r}: {known}") from error
    if as_json:
        print_json(asdict(row))
    else:
        click.echo(f"{name} is {said}")


def ask(
    config: Path | None,
    registry: str | None,
    data: str | None,
    question: "Callable[[RegistryStore], Awaitable[T]]",
) -> T:
    """Opens the registry that the options and settings name, asks one thing, and closes it."""
    return asyncio.run(_ask(_registry_settings(load(config), registry, data), question))


def _registry_settings(loaded: "Loaded", registry: str | None, data: str | None) -> "RegistrySettings":
    """The catalog that is meant: of the options, of the settings, or of the `argosy up` that is running."""
    from argosy.app.settings import user_data_dir
    from argosy.app.working_sets import choose_catalog
    from argosy.registry.settings import RegistrySettings

    settings = loaded.get(RegistrySettings)
    if registry is not None and data is not None:
        raise Invalid("--registry and --data both name a catalog: give one of them")
    if registry is not None:
        return replace(settings, url=registry)
    choice = choose_catalog(
        user_data_dir(loaded),
        settings.url,
        is_configured=("registry", "url") in loaded.sources,
        directory=None if data is None else Path(os.path.abspath(os.path.expanduser(data))),
    )
    if choice.note:
        click.echo(f"note: {choice.note}", err=True)
    return replace(settings, url=choice.url)


async def _ask(settings: "RegistrySettings", question: "Callable[[RegistryStore], Awaitable[T]]") -> T:
    from argosy.app.stores import reach_registry

    store = await reach_registry(settings)
    try:
        return await question(store)
    finally:
        await store.close()
