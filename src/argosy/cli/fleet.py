"""`argosy node|lease|auction|scale`: the state of the fleet in its store, for operators."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from argosy.base.errors import ArgosyError, Forbidden, Invalid, NotFound, Unauthorized, Unavailable
from argosy.cli.commands import Command, Group, Seconds
from argosy.cli.config import config_option, load
from argosy.cli.output import json_option, print_json, print_table

if TYPE_CHECKING:
    from urllib.error import HTTPError

    from argosy.ownership.events import Snapshot
    from argosy.ownership.model import SessionInfo
    from argosy.ownership.ports import OwnershipStore
    from argosy.ownership.settings import OwnershipSettings


C = TypeVar("C", bound=Callable[..., Any])
T = TypeVar("T")

TIMEOUT_S = 30.0  # of an HTTP request to a node
BODY_BYTES_MAX = 64 << 20
POLL_S = 0.2  # between two checks whether a drained node has left


def store_options(command: C) -> C:
    """Adds the options that select a store: `--store`, `--space`, `--config`."""
    # In reverse order of the help, because each decorator adds its option before the others.
    for add in (
        config_option,
        click.option("--space", metavar="NAME", help="Set of units; overrides the setting ownership.space."),
        click.option("--store", metavar="URL", help="Store of the leases; overrides the setting ownership.store."),
    ):
        command = add(command)
    return command


@click.group(cls=Group)
def node() -> None:
    """List and drain the nodes of the fleet."""


@node.command("list")
@store_options
@json_option
def list_nodes(store: str | None, space: str | None, config: Path | None, as_json: bool) -> None:
    """List nodes with a live session, and the number of leases of each."""
    rows = run_with_store(config, store, space, _nodes)
    if as_json:
        print_json(rows)
        return
    columns = ("node", "address", "is_bidding", "leases", "member_expires_in_s", "holder_expires_in_s")
    print_table(columns, [[row[name] for name in columns] for row in rows], empty="no nodes found")


async def _nodes(store: "OwnershipStore") -> list[dict[str, Any]]:
    snapshot, sessions = await first_snapshot(store), await store.sessions()
    members = {member.node: member for member in snapshot.members}
    sessions_by_node: dict[str, list[SessionInfo]] = {}
    for session in sessions:
        sessions_by_node.setdefault(session.node, []).append(session)
    return [
        {
            "node": name,
            "address": of_node[0].address,
            "is_bidding": name in members and members[name].is_bidding,
            "capabilities": list(members[name].capabilities) if name in members else [],
            "leases": sum(lease.node == name for lease in snapshot.leases),
            **{f"{role}_expires_in_s": _expiry(of_node, role) for role in ("member", "holder")},
        }
        for name, of_node in sorted(sessions_by_node.items())
    ]


@node.command()
@click.argument("name", metavar="NODE")
@click.option("--wait", "wait_s", type=Seconds(0), default=0.0, help="Seconds to wait until the node has left.")
@store_options
@json_option
def drain(name: str, wait_s: float, store: str | None, space: str | None, config: Path | None, as_json: bool) -> None:
    """Drain a node: hand off its units and stop it.

    The admin token of the node is read from the settings (node.admin_token).
    """
    from argosy.app.settings import NodeSettings

    async def find_address(opened: "OwnershipStore") -> str:
        sessions = {session.node: session.address for session in await opened.sessions()}
        if name not in sessions:
            known = ", ".join(sorted(sessions)) or "none"
            raise NotFound(f"node {name!r} not found; known nodes: {known}")
        return sessions[name]

    address = run_with_store(config, store, space, find_address)
    _post(f"http://{address}/v1/drain", token=load(config).get(NodeSettings).admin_token)
    # The node ends by itself when it has handed off its units; the store shows when its session has ended.
    has_left = run_with_store(config, store, space, lambda opened: _has_left(opened, name, wait_s))
    if as_json:
        print_json({"node": name, "address": address, "has_left": has_left})
    else:
        click.echo(f"{'drained' if has_left else 'draining'} {name}")


async def _has_left(store: "OwnershipStore", name: str, within_s: float) -> bool:
    """Polls until the node has no session, for at most `within_s`; whether it has left."""
    from argosy.base.clock import SystemClock

    clock = SystemClock()
    until = clock.now() + within_s
    while any(session.node == name for session in await store.sessions()):
        if clock.now() >= until:
            return False
        await clock.sleep(POLL_S)
    return True


def _expiry(sessions: "list[SessionInfo]", role: str) -> float | None:
    return next((round(session.expires_in_s, 1) for session in sessions if session.role == role), None)


@click.group(cls=Group)
def lease() -> None:
    """List leases."""


@lease.command("list")
@click.option("--node", "of_node", metavar="ID", help="Only the leases of this node.")
@store_options
@json_option
def list_leases(of_node: str | None, store: str | None, space: str | None, config: Path | None, as_json: bool) -> None:
    """List leases: unit, holder, epoch and state."""
    snapshot = run_with_store(config, store, space, first_snapshot)
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
    _print_rows(rows, as_json, empty="no leases found")


@click.group(cls=Group)
def auction() -> None:
    """List auctions, and set the number of bids that closes them early."""


@auction.command("list")
@store_options
@json_option
def list_auctions(store: str | None, space: str | None, config: Path | None, as_json: bool) -> None:
    """List open auctions."""
    snapshot = run_with_store(config, store, space, first_snapshot)
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
    _print_rows(rows, as_json, empty="no auctions found")


@auction.command("set-max-bids")
@click.argument("count", metavar="N|none")
@store_options
@json_option
def set_max_bids(count: str, store: str | None, space: str | None, config: Path | None, as_json: bool) -> None:
    """Set the number of bids that closes auctions early.

    `none` clears it. Applies to auctions that open from now on, on nodes whose setting ownership.max_bids is 'pushed'.
    """
    if count != "none" and not count.isdecimal():
        raise Invalid(f"invalid max-bids {count!r}: expected a whole number or 'none'")
    max_bids = None if count == "none" else int(count)
    run_with_store(config, store, space, lambda opened: opened.push_max_bids(max_bids))
    if as_json:
        print_json({"max_bids": max_bids})
    else:
        click.echo("cleared max-bids" if max_bids is None else f"set max-bids to {max_bids}")


@click.command(cls=Command)
@store_options
@json_option
def scale(store: str | None, space: str | None, config: Path | None, as_json: bool) -> None:
    """Show the desired number of nodes.

    The store has the present state only. The nodes also know how long units have been unowned: GET /scale on one.
    """
    from argosy.base.clock import SystemClock
    from argosy.ownership.autoscale import Autoscaler
    from argosy.ownership.events import CatalogRead
    from argosy.ownership.model import UnitSpec
    from argosy.ownership.view import FleetView

    effective = settings(config, store, space)
    now, view = SystemClock().now(), FleetView()
    view.apply(run_with_store(config, store, space, first_snapshot), now)
    view.apply(CatalogRead(tuple(UnitSpec(name) for name in effective.units)), now)
    signal = asdict(Autoscaler(effective).signal(view, now))
    if as_json:
        print_json(signal)
    else:
        rows = [(name, ", ".join(value) if isinstance(value, tuple) else value) for name, value in signal.items()]
        print_table(("field", "value"), rows, empty="")


def run_with_store(
    config: Path | None, store: str | None, space: str | None, call: "Callable[[OwnershipStore], Awaitable[T]]"
) -> T:
    """Opens the store that the options and settings name, runs `call` with it, and closes it."""
    return asyncio.run(_run_with(settings(config, store, space), call))


def settings(config: Path | None, store: str | None, space: str | None) -> "OwnershipSettings":
    """The settings with the options applied. Rejects a store in memory, which no other process can read."""
    from argosy.ownership.settings import OwnershipSettings

    effective = load(config).get(OwnershipSettings)
    effective = replace(effective, store=store or effective.store, space=space or effective.space)
    if effective.store.startswith("memory:"):
        raise Invalid(
            f"store {effective.store} is private to one process; pass the store of the fleet with --store URL"
        )
    return effective


async def _run_with(effective: "OwnershipSettings", call: "Callable[[OwnershipStore], Awaitable[T]]") -> T:
    from argosy.base.clock import SystemClock, system_random
    from argosy.ownership import open_ownership_store
    from argosy.ownership.model import Space

    opened = await open_ownership_store(
        effective.store,
        Space(effective.space, is_auctioned=effective.placement == "auction"),
        clock=SystemClock(),
        random=system_random(),
        grace_s=effective.grace,
        namespace=effective.namespace,
    )
    try:
        return await call(opened)
    finally:
        await opened.close()


async def first_snapshot(store: "OwnershipStore") -> "Snapshot":
    """The present state of the fleet, which is the first event of every watch."""
    from argosy.ownership.events import Snapshot

    # A watch begins with a snapshot of one instant; separate reads could show a lease of a node that is not listed.
    facts = store.watch()
    try:
        fact = await anext(facts)
        assert isinstance(fact, Snapshot)
        return fact
    finally:
        # Not every backend's watch is a generator that can be closed.
        if hasattr(facts, "aclose"):
            await facts.aclose()


def _print_rows(rows: list[dict[str, Any]], as_json: bool, *, empty: str) -> None:
    if as_json:
        print_json(rows)
    else:
        print_table(list(rows[0]) if rows else [], [list(row.values()) for row in rows], empty=empty)


def _post(url: str, body: object = None, *, token: str | None = None) -> Any:
    """Sends JSON and returns the JSON of the response; raises the error that the response describes."""
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    headers = {"content-type": "application/json"}
    if token:
        headers["authorization"] = f"Bearer {token}"
    request = Request(url, json.dumps(body).encode(), headers, method="POST")
    try:
        with urlopen(request, timeout=TIMEOUT_S) as response:
            return json.loads(response.read(BODY_BYTES_MAX) or b"null")
    except HTTPError as error:
        # The server's statuses are the errors of `base/errors.py`; anything else is a server that cannot answer.
        kinds: dict[int, type[ArgosyError]] = {400: Invalid, 401: Unauthorized, 403: Forbidden}
        raise kinds.get(error.code, Unavailable)(_error_message(error)) from None
    except (URLError, OSError, ValueError) as error:
        raise Unavailable(f"{url} unreachable: {error}; check that the node is running") from None


def _error_message(error: "HTTPError") -> str:
    """The message in the response, or its status if it has none."""
    try:
        message: str = json.loads(error.read(BODY_BYTES_MAX))["error"]["message"]
        return message
    except (ValueError, KeyError, TypeError):
        return f"{error.url} returned {error.code} {error.reason}"
