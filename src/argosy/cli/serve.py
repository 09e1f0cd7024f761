"""`argosy up`, search and its web pages on this host, and `argosy serve`, one process of a fleet."""

import time
from dataclasses import replace
from pathlib import Path

import click

from argosy.cli.commands import Command
from argosy.cli.completion import complete_path
from argosy.cli.config import config_option, load

# As in `app.local_fleet`, which is imported only when the command runs.
NODES_MAX = 64


@click.command(cls=Command)
@click.argument("addresses", nargs=-1, metavar="[PATH|URL]…", shell_complete=complete_path)
@click.option(
    "--nodes",
    type=click.IntRange(1, NODES_MAX),
    metavar="N",
    help="Start this many search nodes as child processes, with a Valkey server.",
)
@click.option("--port", type=click.IntRange(0, 65535), metavar="PORT", help="Port to listen on; 0 selects a free port.")
@click.option("--name", metavar="NAME", help="Name of the repository, if one address is given.")
@click.option("--data", metavar="DIR", help="Directory of the state; by default derived from the addresses.")
@click.option(
    "--resume", is_flag=True, help="Also serve repositories that were added with `argosy repo add` in earlier runs."
)
@click.option("-v", "--verbose", is_flag=True, help="Show the log in the terminal instead of progress bars.")
@config_option
def up(
    addresses: tuple[str, ...],
    nodes: int | None,
    port: int | None,
    name: str | None,
    data: str | None,
    resume: bool,
    verbose: bool,
    config: Path | None,
) -> None:
    """Index repositories and serve searches in one process.

    Serves web pages and APIs for the given repositories only, or without arguments for the catalog that `argosy repo
    add` edits. Directories and working copies are indexed as they are. Several instances can run side by side, each
    with its own state and port. Stops on Ctrl-C or SIGTERM.
    """
    # Before the imports below, which take most of the time until the first line appears.
    started_at = time.monotonic()
    from argosy.app.up import UpOptions, run_up
    from argosy.cli.repo import parse_sources

    sources = parse_sources(addresses)
    options = UpOptions(nodes=nodes, port=port, data=data, name=name, resume=resume, is_verbose=verbose)
    run_up(load(config), sources, options, started_at=started_at)


# Spelled out, because importing `Role` would import the application for `argosy serve --help`.
ROLES = ("search", "gateway", "jobs", "indexer", "assigner", "content", "keyspace", "hold")


@click.command(cls=Command)
@click.option(
    "--role", "roles", type=click.Choice(ROLES), multiple=True, required=True, help="Role of the process; repeatable."
)
@click.option("--store", metavar="URL", help="Store of the leases; overrides the setting ownership.store.")
@click.option("--registry", metavar="URL", help="Registry with the catalog; overrides the setting registry.url.")
@click.option("--port", type=click.IntRange(0, 65535), metavar="PORT", help="Port to listen on; 0 selects a free port.")
@config_option
def serve(
    roles: tuple[str, ...], store: str | None, registry: str | None, port: int | None, config: Path | None
) -> None:
    """Run one process of a fleet.

    Roles: search bids for repositories, indexes them in memory and searches them; gateway serves the APIs and web
    pages over all search nodes; jobs serves shards of the job broker; indexer is a node of the content index, assigner
    distributes publishers over a pool of indexers, content answers finds over all of them, and keyspace stores a
    partition of their multihashes; hold takes part in leases only. SIGTERM drains the process: it hands off its units
    before it stops.
    """
    from argosy.app.process import Role, run
    from argosy.app.settings import NodeSettings
    from argosy.ownership.settings import OwnershipSettings
    from argosy.registry.settings import RegistrySettings

    loaded = load(config)
    node, ownership, catalog = (
        loaded.get(NodeSettings),
        loaded.get(OwnershipSettings),
        loaded.get(RegistrySettings),
    )
    changed = loaded.with_sections(
        {
            NodeSettings: node if port is None else replace(node, port=port),
            OwnershipSettings: replace(ownership, store=store or ownership.store),
            RegistrySettings: replace(catalog, url=registry or catalog.url),
        }
    )
    run(changed, [Role(role) for role in dict.fromkeys(roles)])
