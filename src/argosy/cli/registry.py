"""`argosy registry`: what is remembered, looked at, moved and measured by operators."""

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
from argosy.cli.output import json_option, print_json, print_table, progress, status
from argosy.cli.settings import config_option, load

if TYPE_CHECKING:
    from argosy.registry.backends.schema_version import Schema
    from argosy.registry.export import Counts, Movable
    from argosy.registry.memory import MemoryReport
    from argosy.registry.settings import RegistrySettings

C = TypeVar("C", bound=Callable[..., Any])
T = TypeVar("T")

FILE = click.Path(dir_okay=False, allow_dash=True, path_type=Path)
STDIN_KEPT_BYTES = 16 << 20  # of what comes through a pipe; more goes to a file


def registry_options(command: C) -> C:
    """Adds what names a registry: `--url`, `--namespace`, `--config`."""
    for add in (
        config_option,
        click.option("--namespace", metavar="NAME", help="First part of every key in Redis; as in the settings."),
        click.option("--url", metavar="URL", help="Where the registry is; as in the settings."),
    ):
        command = add(command)
    return command


@click.group(cls=Group)
def registry() -> None:
    """What is remembered: check it, move it, measure it."""


# -- move and check -----------------------------------------------------------------------------------------


@registry.command("export")
@click.argument("file", type=FILE)
@registry_options
@json_option
def export_registry(file: Path, url: str | None, namespace: str | None, config: Path | None, as_json: bool) -> None:
    """Write everything a registry holds to FILE, one JSON object per line; `-` is standard output.

    What has expired is left out. From SQLite the export is of one instant; from Redis each page of it is.
    """
    from argosy.registry.export import write_out

    wished = settings(config, url, namespace)
    with _written(file) as out, status("export") as say:
        counts = asyncio.run(_opened(wished, lambda store: write_out(store, out, lambda done: say(f"{done:,} items"))))
    if str(file) != "-":
        _tell(counts, as_json, f"exported to {file}")


@contextmanager
def _written(file: Path) -> Iterator[IO[bytes]]:
    """A file that appears whole or not at all: half an export must not stand where a whole one is looked for."""
    if str(file) == "-":
        yield sys.stdout.buffer
        return
    part = file.with_name(f"{file.name}.part")
    try:
        with part.open("wb") as out:
            yield out
        part.replace(file)
    except OSError as error:
        raise Invalid(f"{file} cannot be written: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)


@registry.command("import")
@click.argument("file", type=FILE)
@registry_options
@json_option
def import_registry(file: Path, url: str | None, namespace: str | None, config: Path | None, as_json: bool) -> None:
    """Fill an empty registry with an export from FILE; `-` is standard input.

    The whole file is checked before anything is stored. A registry that already holds something is refused: name
    another file or another --namespace. An import that breaks off leaves a registry that cannot be opened.
    """
    from argosy.registry.export import RegistryExport

    wished = settings(config, url, namespace)
    with _read(file) as lines, progress("import") as told:
        export = RegistryExport(lines)
        total = export.counts.total()

        def say(done: int) -> None:
            told(done / total, f"import: {done:,} of {total:,} items")

        asyncio.run(_opened(wished, lambda store: export.read_into(store, say), may_create=True))
    _tell(export.counts, as_json, f"imported from {file}, which was written at revision {export.header.revision:,}")


@contextmanager
def _read(file: Path) -> Iterator[IO[bytes]]:
    """What can be read twice."""
    if str(file) == "-":
        with tempfile.SpooledTemporaryFile(STDIN_KEPT_BYTES) as kept:
            shutil.copyfileobj(sys.stdin.buffer, kept)
            yield kept
        return
    try:
        found = file.open("rb")
    except OSError as error:
        raise Invalid(f"{file} cannot be read: {error.strerror}") from error
    with found:
        yield found


@registry.command()
@registry_options
@json_option
def check(url: str | None, namespace: str | None, config: Path | None, as_json: bool) -> None:
    """Open a registry, read everything in it, and say what is wrong, or that nothing is. Nothing is changed."""
    from argosy.registry.export import look_over

    wished = settings(config, url, namespace)
    with status("check") as say:

        def look(store: "Movable") -> "Awaitable[tuple[Counts, list[str]]]":
            return look_over(store, lambda done: say(f"{done:,} items"))

        counts, troubles = asyncio.run(_opened(wished, look, may_migrate=False))
    if as_json:
        print_json({"ok": not troubles, "counts": dict(counts), "troubles": troubles})
    else:
        for trouble in troubles:
            click.echo(f"trouble: {trouble}", err=True)
        _tell(counts, False, f"{len(troubles)} troubles" if troubles else "everything can be read")
    if troubles:
        click.get_current_context().exit(1)


@registry.command()
@registry_options
@json_option
def migrate(url: str | None, namespace: str | None, config: Path | None, as_json: bool) -> None:
    """Lead a registry of an older argosy to the present schema, one numbered step after the other."""
    schema = asyncio.run(_migrate(settings(config, url, namespace)))
    if as_json:
        print_json({"found": schema.found, "now": schema.wanted, "steps": [list(step) for step in schema.steps]})
        return
    for number, why in schema.steps:
        click.echo(f"{number}: {why}")
    came = f"came from {schema.found}" if schema.steps else "there was nothing to do"
    click.echo(f"schema version {schema.wanted}: {came}")


async def _migrate(wished: "RegistrySettings") -> "Schema":
    found = await _found(wished)
    await _opened(wished, lambda store: store.revision())
    return found


# -- memory -------------------------------------------------------------------------------------------------


@registry.command()
@click.option("--runs", type=click.Choice(["100", "1000"]), default="100", help="Runs kept of each canary.")
@click.option("--url", metavar="URL", help="The server to measure on; as in the settings.")
@config_option
@json_option
def memory(runs: str, url: str | None, config: Path | None, as_json: bool) -> None:
    """What a registry takes on a Redis or Valkey server, by measurement.

    Loads the representative registry under a namespace of its own, asks the server, and removes it again. Measure while
    little else happens there: what others store meanwhile is counted too.
    """
    from argosy.registry import memory as accounting

    wished = settings(config, url, None)
    if wished.url.startswith("sqlite:"):
        raise Invalid(f"{wished.url} is a file: memory is measured on a server, --url redis://…")
    with status("measuring"):
        found = asyncio.run(_measure(wished.url, int(runs)))
    if as_json:
        print_json(accounting.as_json(found))
        return
    title = f"{found.server}, {found.runs} runs of each canary"
    print_table(accounting.COLUMNS, accounting.as_rows(found), empty="", title=title)
    click.echo(f"\n{accounting.advice(found)}")


async def _measure(url: str, runs: int) -> "MemoryReport":
    from argosy.base.clock import SystemClock, system_random
    from argosy.registry.backends.redis_memory import measure

    return await measure(url, runs=runs, clock=SystemClock(), random=system_random())


# -- what they share ----------------------------------------------------------------------------------------


def settings(config: Path | None, url: str | None, namespace: str | None) -> "RegistrySettings":
    """The settings with what the options override. A registry inside another process cannot be looked at."""
    from argosy.registry.factory import SCHEMES
    from argosy.registry.settings import RegistrySettings

    wished = load(config).get(RegistrySettings)
    wished = replace(wished, url=url or wished.url, namespace=namespace or wished.namespace)
    if not wished.url.startswith(tuple(f"{scheme}://" for scheme in SCHEMES)):
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES if scheme != "memory")
        raise Invalid(f"{redact(wished.url)!r} names no registry: the URL begins with one of {known}")
    if wished.url.startswith("memory:"):
        raise Invalid(f"{wished.url} lives inside one process: name a registry with --url URL")
    return wished


async def _found(wished: "RegistrySettings") -> "Schema":
    from argosy.base.clock import SystemClock, system_random
    from argosy.registry.backends.schema_version import inspect

    schema = await inspect(wished.url, clock=SystemClock(), random=system_random(), namespace=wished.namespace)
    if schema.found is None:
        raise NotFound(f"there is no registry at {redact(wished.url)}: check --url and --namespace")
    return schema


async def _opened(
    wished: "RegistrySettings",
    question: "Callable[[Movable], Awaitable[T]]",
    *,
    may_create: bool = False,
    may_migrate: bool = True,
) -> T:
    """Opens the registry, asks one thing, and closes it."""
    from argosy.base.clock import SystemClock, system_random
    from argosy.registry import open_registry

    if may_create:
        _make_folder(wished.url)
    else:
        schema = await _found(wished)
        if schema.is_old and not may_migrate:
            raise Conflict(f"the schema version is {schema.found}, not {schema.wanted}: run `argosy registry migrate`")
    store = await open_registry(wished.url, clock=SystemClock(), random=system_random(), namespace=wished.namespace)
    try:
        return await question(cast("Movable", store))
    finally:
        await store.close()


def _make_folder(url: str) -> None:
    from argosy.registry.backends.sqlite_setup import path_of

    if url.startswith("sqlite:"):
        folder = Path(path_of(url)).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Invalid(f"the folder {folder} cannot be made: {error.strerror}") from error


def _tell(counts: "Counts", as_json: bool, what: str) -> None:
    if as_json:
        print_json({"counts": dict(counts)})
        return
    print_table(("what", "items"), list(counts.items()), empty="there is nothing in it")
    click.echo(what, err=True)
