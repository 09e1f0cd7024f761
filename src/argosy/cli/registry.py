"""`argosy registry`: checks, exports, imports, migrates and measures a registry."""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

import click

from argosy.base.errors import Conflict, Invalid, NotFound
from argosy.base.redact import redact
from argosy.cli.commands import Group
from argosy.cli.config import config_option, load
from argosy.cli.output import json_option, print_json, print_table, progress, status

if TYPE_CHECKING:
    from argosy.registry.backends.schema_version import Schema
    from argosy.registry.export import Counts, LoadableStore
    from argosy.registry.memory import MemoryReport
    from argosy.registry.settings import RegistrySettings


C = TypeVar("C", bound=Callable[..., Any])
T = TypeVar("T")

FILE = click.Path(dir_okay=False, allow_dash=True, path_type=Path)
STDIN_MEMORY_BYTES = 16 << 20  # of standard input held in memory; a longer one is spooled to a file


def registry_options(command: C) -> C:
    """Adds the options that select a registry: `--url`, `--namespace`, `--config`."""
    for add in (
        config_option,
        click.option(
            "--namespace",
            metavar="NAME",
            help="First part of every key in Redis; overrides the setting registry.namespace.",
        ),
        click.option("--url", metavar="URL", help="Registry; overrides the setting registry.url."),
    ):
        command = add(command)
    return command


@click.group(cls=Group)
def registry() -> None:
    """Check, export, import and migrate the registry."""


# -- export, import, check -----------------------------------------------------------------------------------------


@registry.command("export")
@click.argument("file", type=FILE)
@registry_options
@json_option
def export_registry(file: Path, url: str | None, namespace: str | None, config: Path | None, as_json: bool) -> None:
    """Export a registry to FILE.

    The export has one JSON object per line; `-` is standard output.
    Expired rows are left out. An export from SQLite is a snapshot of one instant; from Redis each page is.
    """
    from argosy.registry.export import write_export

    effective = settings(config, url, namespace)
    with _open_output(file) as out, status("export") as show:
        counts = asyncio.run(
            _run_with_registry(effective, lambda store: write_export(store, out, lambda done: show(f"{done:,} items")))
        )
    if str(file) != "-":
        _print_counts(counts, as_json, f"exported to {file}")


@contextmanager
def _open_output(file: Path) -> Iterator[IO[bytes]]:
    """A file that replaces `file` only when it is complete, so that an interrupted export leaves none."""
    if str(file) == "-":
        yield sys.stdout.buffer
        return
    part = file.with_name(f"{file.name}.part")
    try:
        with part.open("wb") as out:
            yield out
        # Atomic on one file system, which is why the partial file is beside the final one.
        part.replace(file)
    except OSError as error:
        raise Invalid(f"cannot write {file}: {error.strerror}") from error
    finally:
        # After a failure nothing incomplete stays; after a success the name is free already.
        part.unlink(missing_ok=True)


@registry.command("import")
@click.argument("file", type=FILE)
@registry_options
@json_option
def import_registry(file: Path, url: str | None, namespace: str | None, config: Path | None, as_json: bool) -> None:
    """Import an export from FILE into an empty registry.

    `-` is standard input. The whole file is validated before anything is stored. A registry that is not empty is
    rejected: pass another --url or --namespace. An interrupted import leaves a registry that cannot be opened.
    """
    from argosy.registry.export import RegistryExport

    effective = settings(config, url, namespace)
    with _open_input(file) as lines, progress("import") as show:
        export = RegistryExport(lines)
        total = export.counts.total()

        def on_progress(done: int) -> None:
            show(done / total, f"import: {done:,} of {total:,} items")

        asyncio.run(
            _run_with_registry(effective, lambda store: export.import_into(store, on_progress), may_create=True)
        )
    _print_counts(export.counts, as_json, f"imported {file}, exported at revision {export.header.revision:,}")


@contextmanager
def _open_input(file: Path) -> Iterator[IO[bytes]]:
    """The input as a file that can be read twice."""
    if str(file) == "-":
        # Standard input cannot be read twice, and the import validates the whole export before it stores anything.
        with tempfile.SpooledTemporaryFile(STDIN_MEMORY_BYTES) as spooled:
            shutil.copyfileobj(sys.stdin.buffer, spooled)
            yield spooled
        return
    try:
        found = file.open("rb")
    except OSError as error:
        raise Invalid(f"cannot read {file}: {error.strerror}") from error
    with found:
        yield found


@registry.command()
@registry_options
@json_option
def check(url: str | None, namespace: str | None, config: Path | None, as_json: bool) -> None:
    """Read a whole registry and report problems. Nothing is changed."""
    from argosy.registry.export import check_store

    effective = settings(config, url, namespace)
    with status("check") as show:

        def check_all(store: "LoadableStore") -> "Awaitable[tuple[Counts, list[str]]]":
            return check_store(store, lambda done: show(f"{done:,} items"))

        counts, problems = asyncio.run(_run_with_registry(effective, check_all, may_migrate=False))
    if as_json:
        print_json({"ok": not problems, "counts": dict(counts), "problems": problems})
    else:
        for problem in problems:
            click.echo(f"problem: {problem}", err=True)
        _print_counts(counts, False, f"{len(problems)} problems found" if problems else "no problems found")
    if problems:
        click.get_current_context().exit(1)


@registry.command()
@registry_options
@json_option
def migrate(url: str | None, namespace: str | None, config: Path | None, as_json: bool) -> None:
    """Migrate the registry to the current schema version."""
    schema = asyncio.run(_migrate(settings(config, url, namespace)))
    if as_json:
        print_json({"found": schema.found, "now": schema.wanted, "steps": [list(step) for step in schema.steps]})
        return
    for number, why in schema.steps:
        click.echo(f"{number}: {why}")
    done = f"migrated from {schema.found}" if schema.steps else "already up to date"
    click.echo(f"schema version {schema.wanted}: {done}")


async def _migrate(effective: "RegistrySettings") -> "Schema":
    found = await _read_schema(effective)
    # Opening migrates.
    await _run_with_registry(effective, lambda store: store.revision())
    return found


# -- memory -------------------------------------------------------------------------------------------------


@registry.command()
@click.option("--runs", type=click.Choice(["100", "1000"]), default="100", help="Number of stored runs per canary.")
@click.option("--url", metavar="URL", help="Server to measure on; overrides the setting registry.url.")
@config_option
@json_option
def memory(runs: str, url: str | None, config: Path | None, as_json: bool) -> None:
    """Measure the memory of a registry on a Redis or Valkey server.

    Loads a sample data set under a namespace of its own, reads the server's memory figures, and removes it again. Run
    it on an idle server, because concurrent writes of others are counted too.
    """
    from argosy.registry import memory as accounting

    effective = settings(config, url, None)
    if effective.url.startswith("sqlite:"):
        raise Invalid(f"{effective.url} is a file; pass a server with --url redis://…")
    with status("measuring"):
        found = asyncio.run(_measure(effective.url, int(runs)))
    if as_json:
        print_json(accounting.to_json(found))
        return
    title = f"{found.server}, {found.runs} runs of each canary"
    print_table(accounting.COLUMNS, accounting.to_rows(found), empty="", title=title)
    click.echo(f"\n{accounting.advice(found)}")


async def _measure(url: str, runs: int) -> "MemoryReport":
    from argosy.base.clock import SystemClock, system_random
    from argosy.registry.backends.redis_memory import measure

    return await measure(url, runs=runs, clock=SystemClock(), random=system_random())


# -- shared ----------------------------------------------------------------------------------------


def settings(config: Path | None, url: str | None, namespace: str | None) -> "RegistrySettings":
    """The settings with the options applied. Rejects a registry in memory, which no other process can read."""
    from argosy.base.backends.redis.url import SCHEMES_TEXT
    from argosy.registry.factory import SCHEMES
    from argosy.registry.settings import RegistrySettings

    effective = load(config).get(RegistrySettings)
    effective = replace(effective, url=url or effective.url, namespace=namespace or effective.namespace)
    if not effective.url.startswith(tuple(f"{scheme}://" for scheme in SCHEMES)):
        raise Invalid(f"invalid registry URL {redact(effective.url)!r}: expected sqlite://, {SCHEMES_TEXT}")
    if effective.url.startswith("memory:"):
        raise Invalid(f"registry {effective.url} is private to one process; pass another one with --url URL")
    return effective


async def _read_schema(effective: "RegistrySettings") -> "Schema":
    from argosy.base.clock import SystemClock, system_random
    from argosy.registry.backends.schema_version import inspect

    schema = await inspect(effective.url, clock=SystemClock(), random=system_random(), namespace=effective.namespace)
    if schema.found is None:
        raise NotFound(f"no registry found at {redact(effective.url)}; check --url and --namespace")
    return schema


async def _run_with_registry(
    effective: "RegistrySettings",
    call: "Callable[[LoadableStore], Awaitable[T]]",
    *,
    may_create: bool = False,
    may_migrate: bool = True,
) -> T:
    """Opens the registry, runs `call` with it, and closes it."""
    from argosy.base.clock import SystemClock, system_random
    from argosy.registry import open_registry

    if may_create:
        _create_dir(effective.url)
    else:
        schema = await _read_schema(effective)
        # `check` promises to change nothing, so it must not migrate on opening.
        if schema.is_old and not may_migrate:
            raise Conflict(f"schema version is {schema.found}, expected {schema.wanted}; run `argosy registry migrate`")
    store = await open_registry(
        effective.url, clock=SystemClock(), random=system_random(), namespace=effective.namespace
    )
    try:
        return await call(cast("LoadableStore", store))
    finally:
        await store.close()


def _create_dir(url: str) -> None:
    from argosy.registry.backends.sqlite_setup import path_of

    if url.startswith("sqlite:"):
        folder = Path(path_of(url)).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Invalid(f"cannot create directory {folder}: {error.strerror}") from error


def _print_counts(counts: "Counts", as_json: bool, summary: str) -> None:
    if as_json:
        print_json({"counts": dict(counts)})
        return
    print_table(("table", "items"), list(counts.items()), empty="no items found")
    click.echo(summary, err=True)
