"""`argosy find`: who holds exactly this file. It is asked for by its hash alone; nothing of it leaves the machine.

Exit codes: 0 somebody holds each of them, 1 nobody holds some of them, 2 there was an error.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from argosy.base.errors import ArgosyError, Invalid, NotFound, Unavailable
from argosy.base.redact import redact
from argosy.cli.commands import Command
from argosy.cli.completion import complete_path
from argosy.cli.ipni_client import checked_url
from argosy.cli.output import json_option, print_json, progress
from argosy.cli.settings import config_option, load
from argosy.cli.terminal_text import safe_name

if TYPE_CHECKING:
    from argosy.ipni.indexer_client import IndexerClient
    from argosy.ipni.model import ProviderResult

READ_BYTES = 1 << 20
ASKED_AT_ONCE = 16

FOUND, NOTHING, FAILED = 0, 1, 2

Show = Callable[[float, str], None]


@click.command(cls=Command)
@click.argument("names", nargs=-1, required=True, metavar="FILE|CID|MULTIHASH…", shell_complete=complete_path)
@click.option("--url", help="A front door or an indexer; by default this user's own (node.host, node.port).")
@config_option
@json_option
@click.pass_context
def find(ctx: click.Context, names: tuple[str, ...], url: str | None, config: Path | None, as_json: bool) -> None:
    """Who holds exactly this file, CID or hash.

    Repositories and their commits are told, and where it can be had. A FILE is hashed here with sha2-256, and only the
    hash is sent. Exit codes: 0 each is held by somebody, 1 some by nobody, 2 an error.
    """
    try:
        with progress("hashing") as show:
            multihashes = [_multihash(name, show) for name in names]
        found = asyncio.run(_ask(checked_url(url) if url else _front_door(config), multihashes))
    except ArgosyError as error:
        message = redact(str(error))
        failure = {"error": {"kind": type(error).__name__, "status": error.status, "message": message}}
        click.echo(json.dumps(failure) if as_json else f"error: {message}", err=True)
        ctx.exit(FAILED)
    told = [_told(*each) for each in zip(names, multihashes, found, strict=True)]
    if as_json:
        print_json(told)
    else:
        _print(told)
    ctx.exit(FOUND if all(found) else NOTHING)


def _front_door(config: Path | None) -> str:
    from argosy.app.settings import NodeSettings

    this = load(config).get(NodeSettings)
    host = f"[{this.host}]" if ":" in this.host else this.host
    return f"http://{this.address or f'{host}:{this.port}'}"


def _multihash(name: str, show: Show) -> bytes:
    """Of a file's content, or as it is written: a file of that name goes first."""
    from argosy.ipni.web.lookup_params import multihash_of_cid, multihash_of_text

    path = Path(name)
    if path.is_dir():
        raise Invalid(f"{name!r} is a folder: name files in it")
    if path.exists():
        return _hashed(path, show)
    for parse in (multihash_of_cid, multihash_of_text):
        try:
            return parse(name)
        except Invalid:
            pass
    raise NotFound(f"there is no file {name!r}, and it is neither a CID nor a multihash in base58 or hexadecimal")


def _hashed(path: Path, show: Show) -> bytes:
    from argosy.ipni.formats.multihash import SHA2_256, wrap

    digest = hashlib.sha256()
    try:
        size, done = path.stat().st_size, 0
        with path.open("rb") as file:
            while piece := file.read(READ_BYTES):
                digest.update(piece)
                done += len(piece)
                show(done / max(size, done), f"hashing {path.name}")
    except OSError as why:
        raise Invalid(f"{str(path)!r} cannot be read: {why.strerror}") from None
    return wrap(SHA2_256, digest.digest())


async def _ask(url: str, multihashes: list[bytes]) -> "list[tuple[ProviderResult, ...]]":
    from argosy.ipni.indexer_client import IndexerClient

    turn = asyncio.Semaphore(ASKED_AT_ONCE)
    async with IndexerClient(find_url=url) as client:

        async def asked(multihash: bytes) -> "tuple[ProviderResult, ...]":
            async with turn:
                return await client.find(multihash)

        found = await asyncio.gather(*map(asked, multihashes))
        if not any(found):
            await _check_that_finds_are_answered(client, url)
        return found


async def _check_that_finds_are_answered(client: "IndexerClient", url: str) -> None:
    """Whoever knows of no content at all answers 404 too, and that would say that nobody has it."""
    try:
        await client.check_find()
    except NotFound:
        raise Unavailable(f"{url} answers no finds: name a front door or an indexer with --url") from None


def _told(name: str, multihash: bytes, results: "Iterable[ProviderResult]") -> dict[str, Any]:
    from argosy.ipni.formats.cid import RAW, Cid

    cid = Cid(RAW, multihash)
    return {
        "name": name,
        "cid": str(cid),
        "multihash": multihash.hex(),
        "holders": [_holder(result, str(cid)) for result in results],
    }


def _holder(result: "ProviderResult", cid: str) -> dict[str, Any]:
    from argosy.ipni.formats import metadata, multiaddr
    from argosy.ipni.publish.contexts import decode_label

    label = decode_label(result.metadata)
    try:
        protocols = [name for name, _ in metadata.protocols(result.metadata)]
    except Invalid:
        protocols = []
    urls = [url for address in result.provider.addresses if (url := multiaddr.url_of(address)) is not None]
    is_gateway = metadata.NAMES[metadata.HTTP] in protocols
    return {
        "provider": result.provider.id,
        "addresses": list(result.provider.addresses),
        "context": result.context.decode("utf-8", "backslashreplace"),
        "repository": None if label is None else label.name,
        "version": None if label is None else label.version,
        "protocols": protocols,
        "urls": [f"{url.rstrip('/')}/ipfs/{cid}" for url in urls] if is_gateway else [],
    }


def _print(told: list[dict[str, Any]]) -> None:
    for each in told:
        click.echo(f"{safe_name(each['name'])}  {each['cid']}")
        for holder in each["holders"]:
            what = holder["context"] if holder["repository"] is None else _readable(holder)
            click.echo(f"  {safe_name(what)}  {' '.join(map(safe_name, holder['urls'] or holder['addresses']))}")
            click.echo(f"    by {holder['provider']}")
        if not each["holders"]:
            click.echo("  nobody holds it")


def _readable(holder: dict[str, Any]) -> str:
    return f"{holder['repository']}@{holder['version'][:12]}" if holder["version"] else str(holder["repository"])
