"""`argosy node|lease|auction|scale`: the fleet as its store knows it, for operators."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from argosy.base.errors import Invalid, NotFound
from argosy.cli.commands import Command, Group
from argosy.cli.output import json_option, print_json, print_table
from argosy.cli.param_types import Seconds
from argosy.cli.settings import config_option, load

if TYPE_CHECKING:
    from argosy.ownership.events import Snapshot
    from argosy.ownership.model import SessionInfo
    from argosy.ownership.ports import OwnershipStore
    from argosy.ownership.settings import OwnershipSettings

C = TypeVar("C", bound=Callable[..., Any])
T = TypeVar("T")

LOOK_S = 0.2  # how often a node that is to leave is looked for


def store_options(command: C) -> C:
    """Adds what names a store: `--store`, `--space`, `--config`."""
    for add in (
        config_option,
        click.option("--space", metavar="NAME", help="The set of units; by default the one in the settings."),
        click.option("--store", metavar="URL", help="Where leases live; by default the store in the settings."),
    ):
        command = add(command)
    return command


@click.group(cls=Group)
def node() -> None:
    """The nodes of the fleet."""


@node.command("list")
@store_options
@json_option
def list_nodes(store: str | None, space: str | None, config: Path | None, as_json: bool) -> None:
    """Every node with a living session, what it says of itself and how many units it holds."""
    rows = ask(config, store, space, _nodes)
    if as_json:
        print_json(rows)
        return
    columns = ("node", "address", "is_bidding", "leases", "member_expires_in_s", "holder_expires_in_s")
    print_table(columns, [[row[name] for name in columns] for row in rows], empty="no node is alive")


async def _nodes(store: "OwnershipStore") -> list[dict[str, Any]]:
    snapshot, sessions = await first_snapshot(store), await store.sessions()
    members = {member.node: member for member in snapshot.members}
    found: dict[str, list[SessionInfo]] = {}
    for session in sessions:
        found.setdefault(session.node, []).append(session)
    return [
        {
            "node": name,
            "address": of_node[0].address,
            "is_bidding": name in members and members[name].is_bidding,
            "capabilities": list(members[name].capabilities) if name in members else [],
            "leases": sum(lease.node == name for lease in snapshot.leases),
            **{f"{role}_expires_in_s": _expiry(of_node, role) for role in ("member", "holder")},
        }
        for name, of_node in sorted(found.items())
    ]


@node.command()
@click.argument("name", metavar="NODE")
@click.option("--wait", "wait_s", type=Seconds(0), default=0.0, help="Seconds to wait until it has left.")
@store_options
@json_option
def drain(name: str, wait_s: float, store: str | None, space: str | None, config: Path | None, as_json: bool) -> None:
    """Tell a node to leave: it hands on what it holds, and its process ends.

    The node's admin token is taken from the settings (node.admin_token).
    """
    from argosy.app.settings import NodeSettings
    from argosy.cli.asking import post

    async def found(opened: "OwnershipStore") -> str:
        sessions = {session.node: session.address for session in await opened.sessions()}
        if name not in sessions:
            known = ", ".join(sorted(sessions)) or "none"
            raise NotFound(f"there is no living node {name!r}; there are: {known}")
        return sessions[name]

    address = ask(config, store, space, found)
    post(f"http://{address}/v1/drain", token=load(config).get(NodeSettings).admin_token)
    has_left = ask(config, store, space, lambda opened: _has_left(opened, name, wait_s))
    if as_json:
        print_json({"node": name, "address": address, "has_left": has_left})
    else:
        click.echo(f"{name} {'has left' if has_left else 'is draining'}")


async def _has_left(store: "OwnershipStore", name: str, within_s: float) -> bool:
    """Whether a node's sessions are over, looked at again and again for a while."""
    from argosy.base.clock import SystemClock

    clock = SystemClock()
    until = clock.now() + within_s
    while any(session.node == name for session in await store.sessions()):
        if clock.now() >= until:
            return False
        await clock.sleep(LOOK_S)
    return True


def _expiry(sessions: "list[SessionInfo]", role: str) -> float | None:
    return next((round(session.expires_in_s, 1) for session in sessions if session.role == role), None)


@click.group(cls=Group)
def lease() -> None:
    """Who holds what."""


@lease.command("list")
@click.option("--node", "of_node", metavar="ID", help="Only the leases of this node.")
@store_options
@json_option
def list_leases(of_node: str | None, store: str | None, space: str | None, config: Path | None, as_json: bool) -> None:
    """Every lease: unit, holder, epoch and state."""
    snapshot = ask(config, store, space, first_snapshot)
    rows = [
        {
            "unit": each.unit.name,
            "replica": each.unit.replica,
            "node": each.node,
            "address": each.address,
            "epoch": each.epoch,
            "state": str(each.state),
        }
        for each in sorted(snapshot.leases, key=lambda each: each.unit)
        if of_node in (None, each.node)
    ]
    _tell(rows, as_json, empty="nothing is held")


@click.group(cls=Group)
def auction() -> None:
    """Running auctions, and the threshold that closes them early."""


@auction.command("list")
@store_options
@json_option
def list_auctions(store: str | None, space: str | None, config: Path | None, as_json: bool) -> None:
    """Every running auction."""
    snapshot = ask(config, store, space, first_snapshot)
    rows = [
        {
            "unit": each.unit.name,
            "replica": each.unit.replica,
            "id": each.id,
            "max_bids": each.max_bids,
            "closes_in_s": round(each.closes_in_s, 1),
        }
        for each in sorted(snapshot.auctions, key=lambda each: each.unit)
    ]
    _tell(rows, as_json, empty="no auction is running")


@auction.command("set-max-bids")
@click.argument("count", metavar="N|none")
@store_options
@json_option
def set_max_bids(count: str, store: str | None, space: str | None, config: Path | None, as_json: bool) -> None:
    """Push the number of bids that ends coming auctions early; `none` takes it back.

    Running auctions keep theirs. Nodes follow it whose max_bids is set to 'pushed'.
    """
    if count != "none" and not count.isdecimal():
        raise Invalid(f"max_bids is a whole number or 'none', not {count!r}")
    max_bids = None if count == "none" else int(count)
    ask(config, store, space, lambda opened: opened.push_max_bids(max_bids))
    if as_json:
        print_json({"max_bids": max_bids})
    else:
        click.echo("no threshold is pushed any more" if max_bids is None else f"coming auctions end at {max_bids} bids")


@click.command(cls=Command)
@store_options
@json_option
def scale(store: str | None, space: str | None, config: Path | None, as_json: bool) -> None:
    """Show how many nodes the fleet needs, and why.

    The store holds the present only. How long units have waited is known to the nodes: see GET /scale on one of them.
    """
    from argosy.base.clock import SystemClock
    from argosy.ownership.autoscale import Autoscaler
    from argosy.ownership.events import CatalogRead
    from argosy.ownership.model import UnitSpec
    from argosy.ownership.view import FleetView

    wished = settings(config, store, space)
    now, view = SystemClock().now(), FleetView()
    view.apply(ask(config, store, space, first_snapshot), now)
    view.apply(CatalogRead(tuple(UnitSpec(name) for name in wished.units)), now)
    signal = asdict(Autoscaler(wished).signal(view, now))
    if as_json:
        print_json(signal)
    else:
        rows = [(name, ", ".join(value) if isinstance(value, tuple) else value) for name, value in signal.items()]
        print_table(("figure", "value"), rows, empty="")


def ask(
    config: Path | None, store: str | None, space: str | None, question: "Callable[[OwnershipStore], Awaitable[T]]"
) -> T:
    """Opens the store that the options and settings name, asks one thing, and closes it."""
    return asyncio.run(_ask(settings(config, store, space), question))


def settings(config: Path | None, store: str | None, space: str | None) -> "OwnershipSettings":
    """The settings with what the options override. A store inside another process cannot be looked at."""
    from argosy.ownership.settings import OwnershipSettings

    wished = load(config).get(OwnershipSettings)
    wished = replace(wished, store=store or wished.store, space=space or wished.space)
    if wished.store.startswith("memory:"):
        raise Invalid(f"{wished.store} lives inside one process: name the fleet's store with --store URL")
    return wished


async def _ask(wished: "OwnershipSettings", question: "Callable[[OwnershipStore], Awaitable[T]]") -> T:
    from argosy.base.clock import SystemClock, system_random
    from argosy.ownership import open_ownership_store
    from argosy.ownership.model import Space

    opened = await open_ownership_store(
        wished.store,
        Space(wished.space, is_auctioned=wished.placement == "auction"),
        clock=SystemClock(),
        random=system_random(),
        grace_s=wished.grace,
        namespace=wished.namespace,
    )
    try:
        return await question(opened)
    finally:
        await opened.close()


async def first_snapshot(store: "OwnershipStore") -> "Snapshot":
    """The fleet as it is now: every watch begins with it."""
    from argosy.ownership.events import Snapshot

    facts = store.watch()
    try:
        fact = await anext(facts)
        assert isinstance(fact, Snapshot)
        return fact
    finally:
        if hasattr(facts, "aclose"):
            await facts.aclose()


def _tell(rows: list[dict[str, Any]], as_json: bool, *, empty: str) -> None:
    if as_json:
        print_json(rows)
    else:
        print_table(list(rows[0]) if rows else [], [list(row.values()) for row in rows], empty=empty)
