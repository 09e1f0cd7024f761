"""`argosy find`: finds the holders of a file by its hash. The file itself is never sent.

Exit codes: 0 all found, 1 some not found, 2 an error.
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
from argosy.cli.config import config_option, load
from argosy.cli.ipni_client import check_url
from argosy.cli.output import json_option, print_json, progress, safe_name

if TYPE_CHECKING:
    from argosy.ipni.indexer_client import IndexerClient
    from argosy.ipni.model import ProviderResult


READ_BYTES = 1 << 20
REQUESTS_MAX = 16

FOUND, NOTHING, FAILED = 0, 1, 2

ShowProgress = Callable[[float, str], None]


@click.command(cls=Command)
@click.argument("names", nargs=-1, required=True, metavar="FILE|CID|MULTIHASH…", shell_complete=complete_path)
@click.option("--url", help="Gateway or indexer; by default the local one (node.host, node.port).")
@config_option
@json_option
@click.pass_context
def find(ctx: click.Context, names: tuple[str, ...], url: str | None, config: Path | None, as_json: bool) -> None:
    """Find who has a file, CID or multihash.

    Prints the repositories and commits that contain it, and the addresses that serve it. A FILE is hashed locally with
    sha2-256; only the hash is sent. Exit codes: 0 all found, 1 some not found, 2 an error.
    """
    try:
        with progress("hashing") as show:
            multihashes = [_multihash(name, show) for name in names]
        results = asyncio.run(_find_all(check_url(url) if url else _local_gateway(config), multihashes))
    # Not left to the top-level group, because 1 means "not found" here and an error needs another code.
    except ArgosyError as error:
        message = redact(str(error))
        failure = {"error": {"kind": type(error).__name__, "status": error.status, "message": message}}
        click.echo(json.dumps(failure) if as_json else f"error: {message}", err=True)
        ctx.exit(FAILED)
    found = [_to_json(*each) for each in zip(names, multihashes, results, strict=True)]
    if as_json:
        print_json(found)
    else:
        _print(found)
    ctx.exit(FOUND if all(results) else NOTHING)


def _local_gateway(config: Path | None) -> str:
    from argosy.app.settings import NodeSettings

    this = load(config).get(NodeSettings)
    host = f"[{this.host}]" if ":" in this.host else this.host
    return f"http://{this.address or f'{host}:{this.port}'}"


def _multihash(name: str, show: ShowProgress) -> bytes:
    """The hash of a file's content, or the multihash that `name` spells; an existing file takes precedence."""
    from argosy.ipni.web.lookup_params import multihash_of_cid, multihash_of_text

    path = Path(name)
    if path.is_dir():
        raise Invalid(f"{name!r} is a directory; pass the files in it")
    if path.exists():
        return _hash_file(path, show)
    # A CID first: in base58 every CIDv0 is also a valid multihash, and both mean the same content.
    for parse in (multihash_of_cid, multihash_of_text):
        try:
            return parse(name)
        except Invalid:
            pass
    raise NotFound(f"{name!r} not found: no such file, and not a CID or a multihash in base58 or hexadecimal")


def _hash_file(path: Path, show: ShowProgress) -> bytes:
    from argosy.ipni.formats.multihash import SHA2_256, wrap

    digest = hashlib.sha256()
    try:
        size, done = path.stat().st_size, 0
        with path.open("rb") as file:
            # In pieces, because a file may be larger than the memory.
            while piece := file.read(READ_BYTES):
                digest.update(piece)
                done += len(piece)
                show(done / max(size, done), f"hashing {path.name}")
    except OSError as error:
        raise Invalid(f"cannot read {str(path)!r}: {error.strerror}") from None
    return wrap(SHA2_256, digest.digest())


async def _find_all(url: str, multihashes: list[bytes]) -> "list[tuple[ProviderResult, ...]]":
    from argosy.ipni.indexer_client import IndexerClient

    permits = asyncio.Semaphore(REQUESTS_MAX)
    async with IndexerClient(find_url=url) as client:

        async def find_one(multihash: bytes) -> "tuple[ProviderResult, ...]":
            async with permits:
                return await client.find(multihash)

        found = await asyncio.gather(*map(find_one, multihashes))
        # Only then, because it costs another request.
        if not any(found):
            await _check_find_api(client, url)
        return found


async def _check_find_api(client: "IndexerClient", url: str) -> None:
    """A server without a find API returns 404 too, which must not be mistaken for "not found"."""
    try:
        await client.check_find()
    except NotFound:
        raise Unavailable(f"{url} does not serve find requests; pass a gateway or indexer with --url") from None


def _to_json(name: str, multihash: bytes, results: "Iterable[ProviderResult]") -> dict[str, Any]:
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
    from argosy.ipni.formats.metadata import decode_label

    label = decode_label(result.metadata)
    try:
        protocols = [name for name, _ in metadata.protocols(result.metadata)]
    # Metadata of another program; its holder is shown nevertheless.
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


def _print(found: list[dict[str, Any]]) -> None:
    for each in found:
        click.echo(f"{safe_name(each['name'])}  {each['cid']}")
        for holder in each["holders"]:
            content = holder["context"] if holder["repository"] is None else _repository_text(holder)
            click.echo(f"  {safe_name(content)}  {' '.join(map(safe_name, holder['urls'] or holder['addresses']))}")
            click.echo(f"    by {holder['provider']}")
        if not each["holders"]:
            click.echo("  not found")


def _repository_text(holder: dict[str, Any]) -> str:
    return f"{holder['repository']}@{holder['version'][:12]}" if holder["version"] else str(holder["repository"])
