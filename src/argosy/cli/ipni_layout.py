"""`argosy ipni layout`: the layout file, which lists the query nodes of the content index."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from argosy.base.errors import Invalid, NotFound
from argosy.cli.commands import Group
from argosy.cli.config import config_option, load
from argosy.cli.output import json_option, print_json, print_table

if TYPE_CHECKING:
    from argosy.ipni.keyspace.layout import KeyspaceLayout


@dataclass(frozen=True)
class LayoutFile:
    """The layout file that the settings name."""

    path: Path
    token: str | None
    call_s: float

    @classmethod
    def of(cls, config: Path | None) -> "LayoutFile":
        from argosy.ipni.settings import KeyspaceSettings

        settings = load(config).get(KeyspaceSettings)
        if settings.layout_file is None:
            raise Invalid("no layout file configured; set keyspace.layout_file")
        return cls(Path(settings.layout_file), settings.token, settings.call_s)

    def read(self) -> "KeyspaceLayout":
        from argosy.ipni.keyspace.runtime import read_layout

        return read_layout(self.path)

    def write(self, layout: "KeyspaceLayout") -> None:
        from argosy.ipni.keyspace.runtime import write_layout

        write_layout(self.path, layout)

    def run(self, call: Any, layout: "KeyspaceLayout") -> Any:
        """Runs `call` with connections to all nodes of the layout."""
        from argosy.ipni.keyspace.client import NodeConnections

        async def run_with_nodes() -> Any:
            connections = NodeConnections(token=self.token, call_s=self.call_s)
            try:
                return await call(layout, connections)
            finally:
                await connections.close()

        return asyncio.run(run_with_nodes())


@click.group(cls=Group)
def layout() -> None:
    """Show and change the query nodes of the content index."""


@layout.command()
@config_option
@json_option
def show(config: Path | None, as_json: bool) -> None:
    """List query nodes, their slots, and the slots they have yet to copy."""
    from argosy.ipni.keyspace.runtime import statuses

    file = LayoutFile.of(config)
    here = file.read()
    columns = ("node", "slots", "pending slots", "entries", "bytes")
    rows = [
        (each.name, each.held, each.left, each.stats.entries, each.stats.disk_bytes)
        for each in file.run(statuses, here)
    ]
    if as_json:
        nodes = [dict(zip(("node", "slots", "left", "entries", "disk_bytes"), row, strict=True)) for row in rows]
        print_json({"version": here.version, "is_moving": here.previous is not None, "nodes": nodes})
    else:
        state = "moving" if here.previous is not None else "settled"
        print_table(columns, rows, empty="no nodes found", title=f"version {here.version}, {state}")


@layout.command()
@click.argument("node", metavar="NAME=URL")
@config_option
@json_option
def add(node: str, config: Path | None, as_json: bool) -> None:
    """Add a query node. It copies its slots from the other nodes while these continue to serve."""
    name, sign, url = node.partition("=")
    if not (name and sign and url):
        raise Invalid(f"invalid node {node!r}: expected NAME=URL")
    here = (file := LayoutFile.of(config)).read()
    _change(file, here, {**here.now.nodes, name: url}, as_json=as_json)


@layout.command()
@click.argument("name")
@click.option("--lost", is_flag=True, help="The node is lost: copy its slots from the other replicas.")
@config_option
@json_option
def remove(name: str, lost: bool, config: Path | None, as_json: bool) -> None:
    """Remove a query node; the other nodes copy its slots first."""
    here = (file := LayoutFile.of(config)).read()
    if name not in here.now.nodes:
        raise NotFound(
            f"node {name!r} not found in layout version {here.version}; nodes: {', '.join(sorted(here.now.nodes))}"
        )
    nodes = {each: url for each, url in here.now.nodes.items() if each != name}
    _change(file, here, nodes, lost=frozenset([name]) if lost else frozenset(), as_json=as_json)


@layout.command()
@config_option
@json_option
def finalize(config: Path | None, as_json: bool) -> None:
    """Finish a move. Requires that every node has copied its slots; the nodes then delete the slots of others."""
    from argosy.ipni.keyspace.layout import finalize as finish_move
    from argosy.ipni.keyspace.runtime import check_moved

    here = (file := LayoutFile.of(config)).read()
    # First, because it fails at once if there is no move.
    following = finish_move(here)
    # Finishing early would let nodes delete slots that their new holders have not copied: data would be lost.
    file.run(check_moved, here)
    file.write(following)
    _print_layout(following, as_json=as_json)


@layout.command()
@config_option
@json_option
def revert(config: Path | None, as_json: bool) -> None:
    """Undo a move that is not finished."""
    from argosy.ipni.keyspace.layout import revert as undo_move

    file = LayoutFile.of(config)
    previous = undo_move(file.read())
    file.write(previous)
    _print_layout(previous, as_json=as_json)


def _change(
    file: LayoutFile,
    here: "KeyspaceLayout",
    nodes: Mapping[str, str],
    *,
    as_json: bool,
    lost: frozenset[str] = frozenset(),
) -> None:
    from argosy.ipni.keyspace.layout import start_move

    following = start_move(here, nodes, lost=lost)
    file.write(following)
    _print_layout(following, as_json=as_json)


def _print_layout(written: "KeyspaceLayout", *, as_json: bool) -> None:
    nodes = sorted(written.now.nodes)
    if as_json:
        print_json({"version": written.version, "is_moving": written.previous is not None, "nodes": nodes})
    else:
        click.echo(f"version {written.version}: {', '.join(nodes)}; copy the file to every node, then to the indexers")
