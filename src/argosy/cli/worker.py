"""`argosy worker`: run handlers of jobs."""

import os
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

import click

from argosy.base import logs
from argosy.base.errors import Invalid, NotFound
from argosy.cli.commands import Group, Seconds
from argosy.cli.job_client import BrokerOptions, broker_options
from argosy.cli.output import print_json


@click.group(cls=Group)
def worker() -> None:
    """Run a worker for jobs."""


@worker.command()
@click.argument("target", metavar="MODULE[:NAME]")
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1000),
    metavar="N",
    default=16,
    help="Number of tasks that run concurrently.",
)
@click.option(
    "--name", default="", show_default=False, help="Name of the worker; by default derived from host and process id."
)
@click.option(
    "--stop", "stop_s", type=Seconds(0), default=30.0, help="Seconds that running tasks get to finish on shutdown."
)
@broker_options
def run(broker: BrokerOptions, target: str, concurrency: int, name: str, stop_s: float, as_json: bool) -> None:
    """Run the handlers of a module until SIGINT or SIGTERM.

    MODULE is also searched for in the current directory. Its handlers are the functions with the decorator
    `@job("group")`; NAME may be one handler, or a list of them. A second signal stops the worker immediately: other
    workers get its tasks after their leases expire.
    """
    import asyncio

    from argosy.jobs import Worker

    logs.configure(level="info", format="json" if as_json else "text")
    handlers = load_handlers(target)

    async def work() -> None:
        async with broker.client() as client:
            running = Worker(client, concurrency=concurrency, name=name, stop_s=stop_s)
            groups = running.add(handlers)
            if as_json:
                print_json({"worker": running.name, "groups": groups})
            else:
                click.echo(f"worker {running.name} started: groups {', '.join(groups)}")
            await running.run_until_signal()

    try:
        asyncio.run(work())
    # The second signal: tasks were abandoned, so the exit code must not be 0.
    except asyncio.CancelledError:
        raise SystemExit(1) from None


def load_handlers(target: str) -> list[Any]:
    """The objects that MODULE:NAME names; raises Invalid if none of them is a handler."""
    module_name, _, name = target.partition(":")
    if not all(module_name.split(".")) or os.sep in module_name or module_name.endswith(".py"):
        raise Invalid(f"invalid module {module_name!r}: expected package.module as in an import, not a path")
    # As `python -m` does: handlers usually lie beside the shell, not in an installed package.
    sys.path.insert(0, os.getcwd())
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module exists, but one of its own imports is missing
        raise NotFound(f"module {module_name!r} not found; check its name and the current directory") from None
    finally:
        sys.path.remove(os.getcwd())
    objects = _objects(module, name, target)
    from argosy.jobs.sdk.handlers import find_marked

    if not find_marked(objects):
        raise Invalid(f'no handlers in {target}; decorate functions with @job("group") of argosy.jobs.sdk')
    return objects


def _objects(module: ModuleType, name: str, target: str) -> list[Any]:
    if not name:
        return list(vars(module).values())
    if not hasattr(module, name):
        raise NotFound(f"{name!r} not found in module {module.__name__}")
    thing = getattr(module, name)
    return list(thing) if isinstance(thing, list | tuple | set | frozenset) else [thing]
