"""`argosy ipni publish`: says that this machine has these files, and lets indexers read it."""

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
    from argosy.app.publish_command import Published


@click.command(cls=Command)
@click.argument("paths", nargs=-1, metavar="FILES|DIR…", type=click.Path(path_type=Path))
@click.option("--announce", "announce_urls", multiple=True, metavar="URL", help="An indexer or assigner; repeatable.")
@click.option("--host", default="127.0.0.1", help="Address to serve the chain on.")
@click.option("--port", type=click.IntRange(0, 65535), default=3104, help="Port to serve the chain on; 0 takes any.")
@click.option("--address", help="What indexers are told, if it is not where we listen: a URL or a multiaddr.")
@click.option(
    "--at", "content_addresses", multiple=True, help="An HTTP gateway that gives the files; without, only who has them."
)
@click.option("--withdraw", is_flag=True, help="Take back what was published of these paths.")
@click.option("--once", is_flag=True, help="Publish, announce, and end, while another `ipni publish` serves the chain.")
@config_option
@json_option
def publish(paths: tuple[Path, ...], config: Path | None, as_json: bool, **wished: Any) -> None:
    """Publish FILES and folders by the sha2-256 of each file's content, and serve the chain until Ctrl-C.

    Each path is one context. What has not changed since it was last published makes no advertisement, and what has
    changed takes the old one's place. Without a path, what was published before is served; what is published meanwhile
    with --once is served, too.
    """
    from argosy.app.publish_command import Wish, publish_and_serve

    if not wished["withdraw"]:  # what is taken back may be gone already
        _check_that_they_exist(paths)
    elif not paths:
        raise Invalid("--withdraw takes back what was published of paths: name them")
    with progress("hashing") as show:

        def told(published: "Published") -> None:
            show(1.0, f"{published.path}: {published.files} files")

        wish = Wish(paths=paths, **wished)
        try:
            asyncio.run(publish_and_serve(load(config), wish, show=show, told=told, done=lambda s: _print(s, as_json)))
        except KeyboardInterrupt:
            return


def _check_that_they_exist(paths: Sequence[Path]) -> None:
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        raise Invalid(f"{', '.join(missing)} does not exist: name files and folders, or take them back with --withdraw")


def _print(shown: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(shown)
        return
    click.echo(f"publisher  {shown['publisher']}")
    for each in shown["published"]:
        state = "unchanged" if each["advertisement"] is None else each["advertisement"]
        click.echo(f"{each['path']}  {each['files']} files, {each['bytes']} bytes  {state}")
    for each in shown["withdrawn"]:
        advert = each["advertisement"]
        said = f"withdrawn, {each['files']} files  {advert}" if advert else "was not published: nothing to withdraw"
        click.echo(f"{each['path']}  {said}")
    for each in shown["announced"]:
        click.echo(f"announced to {each['url']}" + (f": {each['error']}" if each["error"] else ""))
    if shown["serving"]:
        click.echo(f"serving {shown['serving']} until Ctrl-C")
