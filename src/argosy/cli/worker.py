"""`argosy worker`: run handlers of jobs."""

import os
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

import click

from argosy.base import logs
from argosy.base.errors import Invalid, NotFound
from argosy.cli.commands import Group
from argosy.cli.job_client import Reach, reach_options
from argosy.cli.output import print_json
from argosy.cli.param_types import Seconds


@click.group(cls=Group)
def worker() -> None:
    """Do jobs."""


@worker.command()
@click.argument("target", metavar="MODULE[:NAME]")
@click.option("--concurrency", type=click.IntRange(1, 1000), default=16, help="Tasks at once.")
@click.option("--name", default="", help="What to call this worker; by default host and process.")
@click.option("--stop", "stop_s", type=Seconds(0), default=30.0, help="Seconds for tasks to end when told.")
@reach_options
def run(reach: Reach, target: str, concurrency: int, name: str, stop_s: float, as_json: bool) -> None:
    """Do the jobs that handlers of a module are for, until SIGINT or SIGTERM.

    MODULE is searched for in the current folder, too. Functions with the decorator `@job("group")` are its handlers;
    NAME may be one of them, or a list of them. A second signal ends the worker at once: the broker gives its tasks to
    others when their leases end.
    """
    import asyncio

    from argosy.jobs.sdk import Worker

    logs.configure(level="info", format="json" if as_json else "text")
    handlers = found(target)

    async def work() -> None:
        async with reach.client() as client:
            made = Worker(client, concurrency=concurrency, name=name, stop_s=stop_s)
            groups = made.add(handlers)
            if as_json:
                print_json({"worker": made.name, "groups": groups})
            else:
                click.echo(f"{made.name} does {', '.join(groups)}")
            await made.run_until_signal()

    try:
        asyncio.run(work())
    except asyncio.CancelledError:
        raise SystemExit(1) from None


def found(target: str) -> list[Any]:
    """The things that MODULE:NAME names, among which are handlers."""
    module_name, _, name = target.partition(":")
    if not all(module_name.split(".")) or os.sep in module_name or module_name.endswith(".py"):
        raise Invalid(f"{module_name!r} is no module: write package.module, as in an import, not the path of a file")
    sys.path.insert(0, os.getcwd())
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there, and lacks something itself
        raise NotFound(f"there is no module {module_name!r} here: is the name right, and the folder?") from None
    finally:
        sys.path.remove(os.getcwd())
    things = _things(module, name, target)
    from argosy.jobs.sdk.handlers import find_marked

    if not find_marked(things):
        raise Invalid(f'{target} has no handlers: mark functions with @job("group") of argosy.jobs.sdk')
    return things


def _things(module: ModuleType, name: str, target: str) -> list[Any]:
    if not name:
        return list(vars(module).values())
    if not hasattr(module, name):
        raise NotFound(f"the module {module.__name__} has no {name!r}: see {target!r}")
    thing = getattr(module, name)
    return list(thing) if isinstance(thing, list | tuple | set | frozenset) else [thing]
