"""`argosy serve`: one process of a fleet, with the given roles."""

from dataclasses import replace
from pathlib import Path

import click

from argosy.cli.commands import Command
from argosy.cli.settings import config_option, load

ROLES = ("search", "gateway", "jobs", "indexer", "assigner", "content", "keyspace", "hold")


@click.command(cls=Command)
@click.option(
    "--role", "roles", type=click.Choice(ROLES), multiple=True, required=True, help="Role of the process; repeatable."
)
@click.option("--store", metavar="URL", help="Store of the leases; overrides the setting ownership.store.")
@click.option("--registry", metavar="URL", help="Registry with the catalog; overrides the setting registry.url.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 selects a free port.")
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
