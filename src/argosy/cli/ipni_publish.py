"""`argosy ipni publish`: advertises local files and serves the chain to indexers."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from argosy.base.errors import Invalid
from argosy.cli.commands import Command
from argosy.cli.output import json_option, print_json, progress
from argosy.cli.settings import config_option, load

if TYPE_CHECKING:
    from argosy.app.publish_command import PublishedPath


@click.command(cls=Command)
@click.argument("paths", nargs=-1, metavar="FILES|DIR…", type=click.Path(path_type=Path))
@click.option(
    "--announce", "announce_urls", multiple=True, metavar="URL", help="Indexer or assigner to announce to; repeatable."
)
@click.option("--host", default="127.0.0.1", help="Address to serve the chain on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=3104, help="Port to serve the chain on; 0 selects a free port."
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
    """Publish files and directories by the sha2-256 of each file's content, and serve the chain until Ctrl-C.

    Each path is one context. A path without changes since its last advertisement is skipped; the advertisement of a
    changed path replaces the old one. Without a path, the existing chain is served, including what other processes
    publish with --once.
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
                    load(config), request, show=show, on_published=on_published, done=lambda s: _print(s, as_json)
                )
            )
        except KeyboardInterrupt:
            return


def _check_paths_exist(paths: Sequence[Path]) -> None:
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        raise Invalid(
            f"not found: {', '.join(missing)}; pass files and directories, or --withdraw to remove their advertisements"
        )


def _print(shown: dict[str, Any], as_json: bool) -> None:
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
