"""`argosy serve`: one process of a fleet, with the roles it is given."""

from dataclasses import replace
from pathlib import Path

import click

from argosy.cli.commands import Command
from argosy.cli.settings import config_option, load

ROLES = ("search", "gateway", "jobs", "indexer", "assigner", "content", "keyspace", "hold")


@click.command(cls=Command)
@click.option("--role", "roles", type=click.Choice(ROLES), multiple=True, required=True, help="May be repeated.")
@click.option("--store", metavar="URL", help="Where leases live; as in the settings (ownership.store).")
@click.option("--registry", metavar="URL", help="Where the catalog lives; as in the settings (registry.url).")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 takes a free one.")
@config_option
def serve(
    roles: tuple[str, ...], store: str | None, registry: str | None, port: int | None, config: Path | None
) -> None:
    """Run one process of a fleet until it is told to stop.

    search bids for repositories, indexes them in memory and answers for them; gateway is the front door over all
    search nodes; jobs serves shards of the job broker; indexer answers who holds which content, assigner gives
    publishers to a pool of those, content asks them all, and keyspace has a part of what they know; hold takes part
    with nothing but leases. SIGTERM drains: what is held goes to others first.
    """
    from argosy.app.process import Role, run
    from argosy.app.settings import NodeSettings
    from argosy.ownership.settings import OwnershipSettings
    from argosy.registry.settings import RegistrySettings

    loaded = load(config)
    node, ownership, remembered = (
        loaded.get(NodeSettings),
        loaded.get(OwnershipSettings),
        loaded.get(RegistrySettings),
    )
    changed = loaded.changed(
        {
            NodeSettings: node if port is None else replace(node, port=port),
            OwnershipSettings: replace(ownership, store=store or ownership.store),
            RegistrySettings: replace(remembered, url=registry or remembered.url),
        }
    )
    run(changed, [Role(role) for role in dict.fromkeys(roles)])
