"""`argosy repo`: edits the catalog of repositories. Every command writes to the registry, which the nodes watch."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from argosy.base.errors import ArgosyError, Conflict, Invalid, NotFound
from argosy.cli.commands import Group
from argosy.cli.completion import complete_path
from argosy.cli.config import config_option, load
from argosy.cli.output import json_option, print_json, print_table, progress
from argosy.search.catalog.addresses import Address, address_of

if TYPE_CHECKING:
    from argosy.base.settings import Loaded
    from argosy.registry.ports import RegistryStore
    from argosy.registry.rows import RepositoryRow
    from argosy.registry.settings import RegistrySettings


C = TypeVar("C", bound=Callable[..., Any])
T = TypeVar("T")

FILE = click.Path(dir_okay=False, allow_dash=True)


def catalog_options(command: C) -> C:
    """Adds the options that select a catalog (`--registry`, `--data`, `--config`), and `--json`."""
    for add in (
        json_option,
        config_option,
        click.option(
            "--data", metavar="DIR", help="Data directory of an argosy up; by default that of the running one."
        ),
        click.option("--registry", metavar="URL", help="Registry; overrides the setting registry.url."),
    ):
        command = add(command)
    return command


@click.group(cls=Group)
def repo() -> None:
    """Manage the catalog of repositories."""


@repo.command()
@click.argument("addresses", nargs=-1, required=True, metavar="URL|PATH…", shell_complete=complete_path)
@click.option("--name", help="Name of the repository, if one address is given; by default derived from the address.")
@click.option("--branch", "branches", multiple=True, help="Branch to index; repeatable. By default HEAD.")
@click.option("--pin", is_flag=True, help="Never evict it from memory.")
@click.option("--replicas", type=int, metavar="N", default=0, help="Number of additional nodes that hold its index.")
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
    """Add repositories to the catalog. Nodes bid for them, fetch them and index them.

    Local paths require the setting fetch.allow_local on the nodes.
    """
    from argosy.registry import catalog

    if name is not None and len(addresses) > 1:
        raise Invalid("--name requires a single address; omit it, or add the repositories one by one")
    # All addresses are checked before the first is added, so that a typing error changes nothing.
    found = [parse_address(text) for text in addresses]

    async def add_all(store: "RegistryStore") -> tuple[list["RepositoryRow"], list[str]]:
        rows, errors = [], []
        for address in found:
            try:
                new = catalog.add(
                    name or address.name, address.url, branches=branches, is_pinned=pin, replicas=replicas
                )
                rows.append(await store.run(new))
            except Conflict as error:  # the other repositories are added, and printed, nevertheless
                errors.append(str(error))
        return rows, errors

    rows, errors = run_with_catalog(config, registry, data, add_all)
    if as_json and rows:
        print_json([asdict(row) for row in rows])
    elif not as_json:
        for row in rows:
            click.echo(f"added {row.repo_id}")
    if errors:
        raise Conflict("; ".join(errors))


@repo.command("list")
@catalog_options
def list_repositories(registry: str | None, data: str | None, config: Path | None, as_json: bool) -> None:
    """List repositories and their index state."""
    from argosy.registry import catalog

    # By name, because repositories that one command added within a millisecond have no other stable order.
    rows = run_with_catalog(config, registry, data, lambda store: store.run(catalog.everything()))
    rows.sort(key=lambda row: row.repo_id)
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    columns = ("repository", "address", "branches", "pinned", "replicas", "memory MB", "commit", "state")
    print_table(columns, [_cells(row) for row in rows], empty="no repositories found")


def _cells(row: "RepositoryRow") -> list[object]:
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
    """Allow a repository to be evicted when memory is short."""
    from argosy.registry import catalog

    _change(name, lambda store: store.run(catalog.pin(name, False)), "unpinned", registry, data, config, as_json)


@repo.command()
@click.argument("name")
@catalog_options
def reindex(name: str, registry: str | None, data: str | None, config: Path | None, as_json: bool) -> None:
    """Reindex a repository from scratch, even without new commits."""
    from argosy.registry import catalog

    change = lambda store: store.run(catalog.request_reindex(name))  # noqa: E731
    _change(name, change, "reindex requested for", registry, data, config, as_json)


@repo.command()
@click.argument("name")
@catalog_options
def remove(name: str, registry: str | None, data: str | None, config: Path | None, as_json: bool) -> None:
    """Remove a repository. It disappears from the catalog and from search results at once."""
    from argosy.registry import catalog

    async def remove_row(store: "RegistryStore") -> "RepositoryRow":
        # Read first, because the row is printed and a removal does not return it.
        known = await store.run(catalog.read(name))
        if known is None or not await store.run(catalog.remove(name)):
            raise NotFound(name)
        return known

    _change(name, remove_row, "removed", registry, data, config, as_json)


@repo.command("import")
@click.argument("file", type=FILE)
@catalog_options
def import_repositories(file: str, registry: str | None, data: str | None, config: Path | None, as_json: bool) -> None:
    """Add the repositories listed in FILE.

    FILE has one address per line, optionally followed by branches; `#` starts a comment, and `-` is standard input. It
    may also be a JSON array of objects with `url` and optionally `name`, `branches`, `is_pinned` and `replicas`. The
    whole file is validated before anything is written. Repositories that are in the catalog already are skipped.
    """
    from argosy.registry import catalog
    from argosy.search.catalog.import_list import read_list

    try:
        with click.open_file(file, encoding="utf-8") as stream:
            text = stream.read()
    except OSError as error:
        raise Invalid(f"cannot read {file!r}: {error.strerror}; nothing was imported") from error
    except UnicodeDecodeError as error:
        raise Invalid(f"cannot read {file!r}: not valid UTF-8; nothing was imported") from error
    entries = read_list(text)

    async def import_all(store: "RegistryStore") -> dict[str, int]:
        counts = {"added": 0, "skipped": 0}
        with progress("importing") as show:
            # One transaction for each: an interrupted import can be repeated, and skips what it has added.
            for done, each in enumerate(entries, start=1):
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
                    counts["skipped"] += 1
                show(done / len(entries), f"importing {done} of {len(entries)}")
        return counts

    counts = run_with_catalog(config, registry, data, import_all)
    if as_json:
        print_json(counts)
    else:
        skipped = f", skipped {counts['skipped']} (already in the catalog)" if counts["skipped"] else ""
        click.echo(f"added {counts['added']}{skipped}")


def _change(
    name: str,
    change: "Callable[[RegistryStore], Awaitable[RepositoryRow]]",
    done: str,
    registry: str | None,
    data: str | None,
    config: Path | None,
    as_json: bool,
) -> None:
    try:
        row = run_with_catalog(config, registry, data, change)
    except NotFound as error:
        raise NotFound(f"repository {name!r} not found; run `argosy repo list` to see all") from error
    if as_json:
        print_json(asdict(row))
    else:
        click.echo(f"{done} {name}")


def run_with_catalog(
    config: Path | None,
    registry: str | None,
    data: str | None,
    call: "Callable[[RegistryStore], Awaitable[T]]",
) -> T:
    """Opens the registry that the options and settings name, runs `call` with it, and closes it."""
    return asyncio.run(_run_with(_registry_settings(load(config), registry, data), call))


def _registry_settings(loaded: "Loaded", registry: str | None, data: str | None) -> "RegistrySettings":
    """The catalog of the options, else of the settings, else of the running `argosy up`."""
    from argosy.app.settings import user_data_dir
    from argosy.app.working_sets import choose_catalog
    from argosy.registry.settings import RegistrySettings

    settings = loaded.get(RegistrySettings)
    if registry is not None and data is not None:
        raise Invalid("--registry and --data are mutually exclusive; pass one of them")
    if registry is not None:
        return replace(settings, url=registry)
    choice = choose_catalog(
        user_data_dir(loaded),
        settings.url,
        is_configured=("registry", "url") in loaded.sources,
        directory=None if data is None else Path(os.path.abspath(os.path.expanduser(data))),
    )
    # On stderr, because the catalog was not named by the user and stdout may be parsed.
    if choice.note:
        click.echo(f"note: {choice.note}", err=True)
    return replace(settings, url=choice.url)


async def _run_with(settings: "RegistrySettings", call: "Callable[[RegistryStore], Awaitable[T]]") -> T:
    from argosy.app.stores import connect_registry

    store = await connect_registry(settings)
    try:
        return await call(store)
    finally:
        await store.close()


_PATHS = (".", "/", "~")


def parse_address(text: str) -> Address:
    """The repository that an argument names. A path that exists takes precedence over a URL."""
    # `argosy up tool` means the directory next to the user, even if a host of that name exists.
    if text.startswith(_PATHS) or os.path.exists(text):
        # Absolute, because other processes read the catalog, in other directories.
        text = os.path.abspath(os.path.expanduser(text))
    elif _is_relative_path(text):
        raise NotFound(f"{text!r} not found: no such directory, and not a URL")
    address = address_of(text, allow_local=True)
    if address.is_local and not os.path.exists(address.path):
        raise NotFound(f"{address.path!r} not found: no such directory or repository")
    if address.note:
        click.echo(f"note: {address.note}", err=True)
    return address


def parse_sources(texts: Sequence[str]) -> list[Address]:
    """The arguments of `argosy up`; raises one Invalid that lists every invalid argument."""
    found, problems = [], []
    for text in texts:
        try:
            address = parse_address(text)
            _check_readable(address)
        except ArgosyError as why:
            problems.append(str(why))
        else:
            found.append(address)
    # All at once: fixing one argument per start would take as many starts.
    if len(problems) > 1:
        raise Invalid("\n  ".join([f"{len(problems)} arguments are invalid:", *problems]))
    if problems:
        raise Invalid(problems[0])
    return found


def _check_readable(address: Address) -> None:
    if not address.is_local:
        return
    if not os.path.isdir(address.path):
        raise Invalid(f"{address.path!r} is not a directory; pass the directory that contains it")
    # Checked here, because otherwise it would show only as a failed index, minutes later.
    if not os.access(address.path, os.R_OK | os.X_OK):
        raise Invalid(f"cannot read {address.path!r}: permission denied")


def _is_relative_path(text: str) -> bool:
    """Whether the text cannot be a URL: it has no scheme, no colon and no host with a dot before a slash, or its first
    part exists in the working directory."""
    head = text.partition("/")[0]
    if head and os.path.lexists(head):  # `notes.txt/x`, where notes.txt exists here
        return True
    return bool(text.strip()) and ":" not in text and not text.startswith("-") and ("/" not in text or "." not in head)
