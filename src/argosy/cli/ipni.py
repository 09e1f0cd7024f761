"""`argosy ipni`: the content index. Publishes files, and administers an indexer."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from argosy.base.errors import Invalid
from argosy.cli.commands import Group
from argosy.cli.config import config_option, load
from argosy.cli.ipni_client import IndexerOptions, check_url, indexer_options
from argosy.cli.ipni_layout import layout
from argosy.cli.output import json_option, print_json, print_table, progress

if TYPE_CHECKING:
    from argosy.app.publish_command import PublishedPath
    from argosy.ipni.indexer_client import IndexerClient
    from argosy.ipni.model import Provider


@click.group(cls=Group)
def ipni() -> None:
    """Manage the content index."""


ipni.add_command(layout)


@ipni.command()
@indexer_options
def status(indexer: IndexerOptions, as_json: bool) -> None:
    """Show the state of the indexer: id, freeze state, disk usage and number of entries."""

    async def read(client: "IndexerClient") -> dict[str, Any]:
        # Two requests: the state is part of the admin API, the counts are part of the find API.
        status, figures = await client.status(), await client.stats()
        return {
            "id": status.id,
            "is_frozen": status.is_frozen,
            "usage_percent": status.usage_percent,
            "entries": figures.entries,
            "disk_bytes": figures.disk_bytes,
        }

    fields = indexer.run(read)
    if as_json:
        print_json(fields)
    else:
        print_table(("field", "value"), list(fields.items()), empty="")


@ipni.command()
@click.argument("provider", required=False)
@indexer_options
def providers(indexer: IndexerOptions, provider: str | None, as_json: bool) -> None:
    """List providers. Shows the last advertisement applied, the lag, and where the indexer froze."""

    async def read(client: "IndexerClient") -> "list[Provider]":
        return await client.providers() if provider is None else [await client.provider(provider)]

    rows = [_provider_fields(each) for each in indexer.run(read)]
    if as_json:
        print_json(rows)
        return
    columns = ("id", "publisher", "last_ad", "last_ad_at", "lag", "frozen_at", "last_error")
    print_table(columns, [[row[name] for name in columns] for row in rows], empty="no providers found")


def _provider_fields(provider: "Provider") -> dict[str, Any]:
    def cid(value: object) -> str | None:
        return None if value is None else str(value)

    return {
        "id": provider.id,
        "addresses": provider.addresses,
        "publisher": provider.publisher.id if provider.publisher else None,
        "last_ad": cid(provider.last_ad),
        "last_ad_at": _time(provider.last_ad_at),
        "lag": provider.lag,
        "frozen_at": cid(provider.frozen_at),
        "frozen_at_time": _time(provider.frozen_at_time),
        "last_error": provider.last_error,
    }


def _time(at: float) -> str | None:
    return datetime.fromtimestamp(at, UTC).isoformat(sep=" ", timespec="seconds") if at else None


@ipni.command("progress")
@click.argument("publisher", required=False)
@indexer_options
def show_progress(indexer: IndexerOptions, publisher: str | None, as_json: bool) -> None:
    """Show running syncs as JSON. Includes their distance from the head of the publisher."""
    print_json(indexer.run(lambda client: client.sync_status(publisher)))


@ipni.command()
@click.argument("publisher")
@click.option("--address", help="Multiaddr of the publisher's chain; by default the known one.")
@click.option(
    "--depth", type=click.IntRange(-1), metavar="N", default=0, help="Number of advertisements to go back; -1 for all."
)
@click.option("--resync", is_flag=True, help="Apply advertisements again that were applied already.")
@indexer_options
def sync(indexer: IndexerOptions, publisher: str, address: str | None, depth: int, resync: bool, as_json: bool) -> None:
    """Start a sync of a publisher's chain."""
    from argosy.ipni.formats import multiaddr

    if address is not None:
        multiaddr.to_bytes(address)  # raises Invalid here; the indexer would only log it
    indexer.run(lambda client: client.sync(publisher, address, depth=depth, is_resync=resync))
    _print_done(as_json, f"sync started: {publisher}")


@ipni.command("remove-provider")
@click.argument("provider")
@click.option("--block", is_flag=True, help="Also block the provider.")
@indexer_options
def remove_provider(indexer: IndexerOptions, provider: str, block: bool, as_json: bool) -> None:
    """Remove a provider and all its content."""
    indexer.run(lambda client: client.remove_provider(provider, is_blocked=block))
    _print_done(as_json, f"removed provider {provider}")


@ipni.command("mark-processed")
@click.argument("provider")
@click.argument("ad")
@indexer_options
def mark_processed(indexer: IndexerOptions, provider: str, ad: str, as_json: bool) -> None:
    """Mark advertisements as applied. Marks AD and all before it, to skip one that cannot be applied."""
    from argosy.ipni.formats import cid as cids

    cid = cids.parse(ad)
    indexer.run(lambda client: client.mark_processed(provider, cid))
    _print_done(as_json, f"marked {cid} of {provider} as processed")


@ipni.command("import-providers")
@click.argument("source", metavar="INDEXER")
@indexer_options
def import_providers(indexer: IndexerOptions, source: str, as_json: bool) -> None:
    """Register the providers of another indexer. INDEXER is the URL of its find API; their chains are synced."""
    url = check_url(source)
    indexer.run(lambda client: client.import_providers(url))
    _print_done(as_json, f"import started: providers of {source}")


def _add_peer_command(
    name: str, done: str, doc: str, call: "Callable[[IndexerClient, str], Awaitable[None]]"
) -> click.Command:
    @ipni.command(name, help=doc)
    @click.argument("peer")
    @indexer_options
    def command(indexer: IndexerOptions, peer: str, as_json: bool) -> None:
        from argosy.ipni.formats.peer import parse_peer

        parsed = parse_peer(peer)  # raises Invalid before the indexer is called
        indexer.run(lambda client: call(client, parsed))
        _print_done(as_json, f"{done} {peer}")

    return command


_add_peer_command(
    "allow",
    "allowed",
    "Allow a peer to publish and provide. Applies until the indexer restarts.",
    lambda c, p: c.allow(p),
)
_add_peer_command("block", "blocked", "Block a peer. Applies until the indexer restarts.", lambda c, p: c.block(p))
_add_peer_command("assign", "assigned", "Assign a publisher to the indexer.", lambda c, p: c.assign(p))
_add_peer_command("unassign", "unassigned", "Remove a publisher from the indexer.", lambda c, p: c.unassign(p))


def _add_command(name: str, done: str, doc: str, call: "Callable[[IndexerClient], Awaitable[None]]") -> click.Command:
    @ipni.command(name, help=doc)
    @indexer_options
    def command(indexer: IndexerOptions, as_json: bool) -> None:
        indexer.run(call)
        _print_done(as_json, done)

    return command


_add_command(
    "freeze",
    "froze the indexer",
    "Freeze the indexer. It rejects new entries; removals and finds continue.",
    lambda c: c.freeze(),
)
_add_command("reload", "reloaded policy", "Reload the policy of the indexer.", lambda c: c.reload())
_add_command(
    "check",
    "the indexer is healthy",
    "Check the health of the indexer. It writes, reads and removes an entry.",
    lambda c: c.check_health(),
)


@ipni.command()
@indexer_options
def assignments(indexer: IndexerOptions, as_json: bool) -> None:
    """List the assigned publishers. Shows the frozen indexer from which each was handed off."""
    found = [(each.publisher, each.continued) for each in indexer.run(lambda client: client.assignments())]
    if as_json:
        print_json([{"publisher": publisher, "continued": continued or None} for publisher, continued in found])
    else:
        print_table(("publisher", "continued from"), found, empty="no assignments found")


@ipni.command("preferred")
@indexer_options
def list_preferred(indexer: IndexerOptions, as_json: bool) -> None:
    """List the preferred publishers. The indexer has stored their content before."""
    _print_list(indexer.run(lambda client: client.preferred_publishers()), "publisher", as_json=as_json)


@ipni.command()
@indexer_options
def syncs(indexer: IndexerOptions, as_json: bool) -> None:
    """List syncs started by an operator. Prints the publishers whose sync is running."""
    _print_list(indexer.run(lambda client: client.syncs()), "publisher", as_json=as_json)


@ipni.command()
@indexer_options
def telemetry(indexer: IndexerOptions, as_json: bool) -> None:
    """Show ingest rates. Prints the multihashes ingested from each provider since the last call."""
    rates = indexer.run(lambda client: client.telemetry())
    rows = [(provider, count, round(seconds, 3), samples) for provider, (count, seconds, samples) in rates.items()]
    if as_json:
        names = ("provider", "multihashes", "seconds", "samples")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table(("provider", "multihashes", "seconds", "samples"), rows, empty="no new multihashes")


def _print_list(found: list[str], name: str, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        print_table((name,), [(each,) for each in found], empty=f"no {name}s found")


def _print_done(as_json: bool, done: str) -> None:
    if as_json:
        print_json({"done": done})
    else:
        click.echo(done)


@ipni.command()
@click.argument("paths", nargs=-1, metavar="FILES|DIR…", type=click.Path(path_type=Path))
@click.option(
    "--announce", "announce_urls", multiple=True, metavar="URL", help="Indexer or assigner to announce to; repeatable."
)
@click.option("--host", default="127.0.0.1", help="Address to serve the chain on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    # Fixed, because indexers remember the address and read the chain there again.
    default=3104,
    help="Port to serve the chain on; 0 selects a free port.",
)
@click.option("--address", help="Public URL or multiaddr of the chain, if it differs from the listener.")
@click.option(
    "--at",
    "content_addresses",
    multiple=True,
    help="HTTP gateway that serves the files; without one, only the provider is published.",
)
@click.option("--withdraw", is_flag=True, help="Remove the advertisements of these paths.")
@click.option("--once", is_flag=True, help="Publish, announce and exit; another `ipni publish` serves the chain.")
@config_option
@json_option
def publish(paths: tuple[Path, ...], config: Path | None, as_json: bool, **options: Any) -> None:
    """Publish files and directories.

    Advertises the sha2-256 of each file's content, and serves the chain until Ctrl-C. Each path is one context. A path
    without changes since its last advertisement is skipped; the advertisement of a changed path replaces the old one.
    Without a path, the existing chain is served, including what other processes publish with --once.
    """
    from argosy.app.publish_command import PublishOptions, publish_and_serve

    if not options["withdraw"]:  # a withdrawn path may not exist any more
        _check_paths_exist(paths)
    elif not paths:
        raise Invalid("--withdraw requires at least one path")
    with progress("hashing") as show:

        def on_published(published: "PublishedPath") -> None:
            show(1.0, f"{published.path}: {published.files} files")

        request = PublishOptions(paths=paths, **options)
        try:
            asyncio.run(
                publish_and_serve(
                    load(config),
                    request,
                    show=show,
                    on_published=on_published,
                    done=lambda s: _print_published(s, as_json),
                )
            )
        # Ctrl-C is how serving ends, so it is a success.
        except KeyboardInterrupt:
            return


def _check_paths_exist(paths: Sequence[Path]) -> None:
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        raise Invalid(
            f"not found: {', '.join(missing)}; pass files and directories, or --withdraw to remove their advertisements"
        )


def _print_published(shown: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(shown)
        return
    click.echo(f"publisher  {shown['publisher']}")
    for each in shown["published"]:
        state = "unchanged" if each["advertisement"] is None else each["advertisement"]
        click.echo(f"{each['path']}  {each['files']} files, {each['bytes']} bytes  {state}")
    for each in shown["withdrawn"]:
        ad = each["advertisement"]
        state = f"withdrawn, {each['files']} files  {ad}" if ad else "not published, nothing to withdraw"
        click.echo(f"{each['path']}  {state}")
    for each in shown["announced"]:
        click.echo(f"announced to {each['url']}" + (f": {each['error']}" if each["error"] else ""))
    if shown["serving"]:
        click.echo(f"serving {shown['serving']} until Ctrl-C")
