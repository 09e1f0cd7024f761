"""`argosy ipni`: the content index. Publish what you have, and steer an indexer."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from argosy.cli.commands import Group
from argosy.cli.ipni_client import Reach, checked_url, reach_options
from argosy.cli.ipni_layout import layout
from argosy.cli.ipni_publish import publish
from argosy.cli.output import print_json, print_table

if TYPE_CHECKING:
    from argosy.ipni.indexer_client import IndexerClient
    from argosy.ipni.model import Provider


@click.group(cls=Group)
def ipni() -> None:
    """The content index: who holds exactly this content."""


ipni.add_command(publish)
ipni.add_command(layout)


@ipni.command()
@reach_options
def status(reach: Reach, as_json: bool) -> None:
    """Who the indexer is, whether it is frozen, how full its disk is and what it holds."""

    async def asked(client: "IndexerClient") -> dict[str, Any]:
        told, figures = await client.status(), await client.figures()
        return {
            "id": told.id,
            "is_frozen": told.is_frozen,
            "usage_percent": told.usage_percent,
            "entries": figures.entries,
            "disk_bytes": figures.disk_bytes,
        }

    told = reach.ask(asked)
    if as_json:
        print_json(told)
    else:
        print_table(("field", "value"), list(told.items()), empty="")


@ipni.command()
@click.argument("provider", required=False)
@reach_options
def providers(reach: Reach, provider: str | None, as_json: bool) -> None:
    """Whom the indexer knows, how far it has come with each, and where it froze."""

    async def asked(client: "IndexerClient") -> "list[Provider]":
        return await client.providers() if provider is None else [await client.provider(provider)]

    rows = [_shown(each) for each in reach.ask(asked)]
    if as_json:
        print_json(rows)
        return
    columns = ("id", "publisher", "last_ad", "last_ad_at", "lag", "frozen_at", "last_error")
    print_table(columns, [[row[name] for name in columns] for row in rows], empty="no providers yet")


def _shown(provider: "Provider") -> dict[str, Any]:
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


@ipni.command()
@click.argument("publisher", required=False)
@reach_options
def progress(reach: Reach, publisher: str | None, as_json: bool) -> None:
    """How syncs stand, and how far each is from its publisher's head. JSON, whatever is asked for."""
    print_json(reach.ask(lambda client: client.sync_status(publisher)))


@ipni.command()
@click.argument("publisher")
@click.option("--address", help="Multiaddr at which its chain can be read; by default the one that is known.")
@click.option("--depth", type=click.IntRange(-1), default=0, help="Advertisements to go back; -1: all of them.")
@click.option("--resync", is_flag=True, help="Apply again what was applied already.")
@reach_options
def sync(reach: Reach, publisher: str, address: str | None, depth: int, resync: bool, as_json: bool) -> None:
    """Read a publisher's chain now."""
    from argosy.ipni.formats import multiaddr

    if address is not None:
        multiaddr.to_bytes(address)  # Invalid if it is none: the indexer would only say so in its log
    reach.ask(lambda client: client.sync(publisher, address, depth=depth, is_resync=resync))
    _say(as_json, publisher, "is being read")


@ipni.command("remove-provider")
@click.argument("provider")
@click.option("--block", is_flag=True, help="And let it not come back.")
@reach_options
def remove_provider(reach: Reach, provider: str, block: bool, as_json: bool) -> None:
    """Forget a provider and all its content."""
    reach.ask(lambda client: client.remove_provider(provider, is_blocked=block))
    _say(as_json, provider, "is forgotten")


@ipni.command("mark-processed")
@click.argument("provider")
@click.argument("ad")
@reach_options
def mark_processed(reach: Reach, provider: str, ad: str, as_json: bool) -> None:
    """Take an advertisement, and all before it, for applied: the way past one that cannot be."""
    from argosy.ipni.formats import cid as cids

    named = cids.parse(ad)
    reach.ask(lambda client: client.mark_processed(provider, named))
    _say(as_json, provider, f"goes on after {named}")


@ipni.command("import-providers")
@click.argument("indexer")
@reach_options
def import_providers(reach: Reach, indexer: str, as_json: bool) -> None:
    """Register whom another INDEXER (the URL of its find API) knows, and read their chains."""
    url = checked_url(indexer)
    reach.ask(lambda client: client.import_providers(url))
    _say(as_json, indexer, "has been asked, its providers are being read")


def _steering(name: str, said: str, doc: str, does: "Callable[[IndexerClient, str], Awaitable[None]]") -> click.Command:
    @ipni.command(name, help=doc)
    @click.argument("peer")
    @reach_options
    def steer(reach: Reach, peer: str, as_json: bool) -> None:
        from argosy.ipni.formats.peer import parse_peer

        named = parse_peer(peer)  # Invalid if it is none, before anybody is asked
        reach.ask(lambda client: does(client, named))
        _say(as_json, peer, said)

    return steer


_steering("allow", "is allowed", "Let a peer publish and provide, until the indexer restarts.", lambda c, p: c.allow(p))
_steering("block", "is blocked", "Refuse a peer, until the indexer restarts.", lambda c, p: c.block(p))
_steering("assign", "is assigned", "Give a publisher to the indexer.", lambda c, p: c.assign(p))
_steering("unassign", "is no longer assigned", "Take a publisher from the indexer.", lambda c, p: c.unassign(p))


def _plain(name: str, said: str, doc: str, does: "Callable[[IndexerClient], Awaitable[None]]") -> click.Command:
    @ipni.command(name, help=doc)
    @reach_options
    def do(reach: Reach, as_json: bool) -> None:
        reach.ask(does)
        _say(as_json, "the indexer", said)

    return do


_plain("freeze", "is frozen", "Store no new entries from now on; removals and finds go on.", lambda c: c.freeze())
_plain("reload", "has read its policy again", "Let the indexer read its policy again.", lambda c: c.reload())
_plain("check", "is healthy", "Let the indexer write, read and remove a probe.", lambda c: c.check_health())


@ipni.command()
@reach_options
def assigned(reach: Reach, as_json: bool) -> None:
    """The publishers on the indexer's allow-list, and from which frozen indexer each was taken over."""
    found = [(each.publisher, each.continued) for each in reach.ask(lambda client: client.assigned())]
    if as_json:
        print_json([{"publisher": publisher, "continued": continued or None} for publisher, continued in found])
    else:
        print_table(("publisher", "continued from"), found, empty="no publisher is assigned")


@ipni.command()
@reach_options
def preferred(reach: Reach, as_json: bool) -> None:
    """The publishers whose content the indexer has from before, and which it would rather have than others."""
    _print_list(reach.ask(lambda client: client.preferred()), "publisher", as_json=as_json)


@ipni.command()
@reach_options
def syncs(reach: Reach, as_json: bool) -> None:
    """The publishers with a sync under way that an operator has started."""
    _print_list(reach.ask(lambda client: client.syncs()), "publisher", as_json=as_json)


@ipni.command()
@reach_options
def telemetry(reach: Reach, as_json: bool) -> None:
    """Multihashes taken in from each provider since this was last asked."""
    told = reach.ask(lambda client: client.telemetry())
    rows = [(provider, count, round(seconds, 3), samples) for provider, (count, seconds, samples) in told.items()]
    if as_json:
        names = ("provider", "multihashes", "seconds", "samples")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table(("provider", "multihashes", "seconds", "samples"), rows, empty="nothing was taken in")


def _print_list(found: list[str], name: str, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        print_table((name,), [(each,) for each in found], empty=f"no {name}")


def _say(as_json: bool, who: str, said: str) -> None:
    if as_json:
        print_json({"done": f"{who} {said}"})
    else:
        click.echo(f"{who} {said}")
