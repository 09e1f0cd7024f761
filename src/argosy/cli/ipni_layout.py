"""`argosy ipni layout`: who the query nodes of the content index are, as a file names them that all of them read."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from argosy.base.errors import Invalid, NotFound
from argosy.cli.commands import Group
from argosy.cli.output import json_option, print_json, print_table
from argosy.cli.settings import config_option, load

if TYPE_CHECKING:
    from argosy.ipni.keyspace.layout import KeyspaceLayout


@dataclass(frozen=True)
class LayoutFile:
    """The file that the settings name, and what is in it."""

    path: Path
    token: str | None
    call_s: float

    @classmethod
    def of(cls, config: Path | None) -> "LayoutFile":
        from argosy.ipni.keyspace.settings import KeyspaceSettings

        settings = load(config).get(KeyspaceSettings)
        if settings.layout_file is None:
            raise Invalid("no layout file: set keyspace.layout_file")
        return cls(Path(settings.layout_file), settings.token, settings.call_s)

    def read(self) -> "KeyspaceLayout":
        from argosy.ipni.keyspace.runtime import read_layout

        return read_layout(self.path)

    def write(self, layout: "KeyspaceLayout") -> None:
        from argosy.ipni.keyspace.runtime import write_layout

        write_layout(self.path, layout)

    def ask(self, question: Any, layout: "KeyspaceLayout") -> Any:
        """Of all nodes of the layout."""
        from argosy.ipni.keyspace.client import NodeConnections

        async def asked() -> Any:
            connections = NodeConnections(token=self.token, call_s=self.call_s)
            try:
                return await question(layout, connections)
            finally:
                await connections.close()

        return asyncio.run(asked())


@click.group(cls=Group)
def layout() -> None:
    """The query nodes of the content index: see them, and change who they are."""


@layout.command()
@config_option
@json_option
def show(config: Path | None, as_json: bool) -> None:
    """Every query node, what it holds, and what it has still to gather."""
    from argosy.ipni.keyspace.runtime import statuses

    file = LayoutFile.of(config)
    here = file.read()
    columns = ("node", "slots", "still to gather", "entries", "bytes")
    rows = [
        (each.name, each.held, each.left, each.figures.entries, each.figures.disk_bytes)
        for each in file.ask(statuses, here)
    ]
    if as_json:
        nodes = [dict(zip(("node", "slots", "left", "entries", "disk_bytes"), row, strict=True)) for row in rows]
        print_json({"version": here.version, "is_moving": here.previous is not None, "nodes": nodes})
    else:
        state = "moving" if here.previous is not None else "settled"
        print_table(columns, rows, empty="no nodes", title=f"version {here.version}, {state}")


@layout.command()
@click.argument("node", metavar="NAME=URL")
@config_option
@json_option
def add(node: str, config: Path | None, as_json: bool) -> None:
    """Let a query node join: it gathers its part from the others, and reads go on meanwhile."""
    name, sign, url = node.partition("=")
    if not (name and sign and url):
        raise Invalid(f"a node is written NAME=URL; got {node!r}")
    here = (file := LayoutFile.of(config)).read()
    _change(file, here, {**here.now.nodes, name: url}, as_json=as_json)


@layout.command()
@click.argument("name")
@click.option("--lost", is_flag=True, help="It will not come back: its part comes from the other replicas.")
@config_option
@json_option
def remove(name: str, lost: bool, config: Path | None, as_json: bool) -> None:
    """Let a query node leave: the others gather its part first."""
    here = (file := LayoutFile.of(config)).read()
    if name not in here.now.nodes:
        raise NotFound(f"{name!r} is not in layout {here.version}: {', '.join(sorted(here.now.nodes))} are")
    nodes = {each: url for each, url in here.now.nodes.items() if each != name}
    _change(file, here, nodes, lost=frozenset([name]) if lost else frozenset(), as_json=as_json)


@layout.command()
@config_option
@json_option
def settle(config: Path | None, as_json: bool) -> None:
    """End a move, once every node has gathered its part; what belongs to others is deleted then."""
    from argosy.ipni.keyspace.layout import finalize
    from argosy.ipni.keyspace.runtime import check_moved

    here = (file := LayoutFile.of(config)).read()
    following = finalize(here)
    file.ask(check_moved, here)
    file.write(following)
    _say(following, as_json=as_json)


@layout.command("give-up")
@config_option
@json_option
def give_up(config: Path | None, as_json: bool) -> None:
    """Take a move back: all as it was before."""
    from argosy.ipni.keyspace.layout import revert

    file = LayoutFile.of(config)
    previous = revert(file.read())
    file.write(previous)
    _say(previous, as_json=as_json)


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
    _say(following, as_json=as_json)


def _say(written: "KeyspaceLayout", *, as_json: bool) -> None:
    nodes = sorted(written.now.nodes)
    if as_json:
        print_json({"version": written.version, "is_moving": written.previous is not None, "nodes": nodes})
    else:
        click.echo(f"version {written.version}: {', '.join(nodes)}; give the file to every node, then to the indexers")
