"""The process of `argosy ipni publish`: publishes files, announces the new head, and serves the chain.

The chain is locked only while advertisements are appended, so another process can append to it while this one serves;
this process then serves the new advertisements too.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argosy.app.http_server import bind_listener, listener_address, serve_app
from argosy.app.settings import user_data_dir
from argosy.base.clock import SystemClock, system_random
from argosy.base.errors import Invalid
from argosy.base.settings import Loaded
from argosy.ipni.formats import multiaddr
from argosy.ipni.formats.peer import PrivateKey
from argosy.ipni.publish.backends.file_hashes import FileHashed, FileSkipped, Note
from argosy.ipni.publish.backends.key_file import open_key
from argosy.ipni.publish.backends.sqlite import SqliteChain
from argosy.ipni.publish.files import (
    PublishedPath,
    WithdrawnPath,
    http_metadata,
    label_metadata,
    publish_paths,
    withdraw_paths,
)
from argosy.ipni.publish.head_announcer import AnnounceClient, AnnounceResult, HeadAnnouncer
from argosy.ipni.publish.http import publisher_app
from argosy.ipni.publish.publisher import Publisher, ReadOnlyChain

__all__ = ["PublishOptions", "PublishedPath", "publish_and_serve"]

CHAIN = "chain.sqlite"

ShowProgress = Callable[[float, str], None]
Change = PublishedPath | WithdrawnPath


@dataclass(frozen=True)
class PublishOptions:
    """The options of the command."""

    paths: Sequence[Path]
    announce_urls: Sequence[str] = ()
    host: str = "127.0.0.1"
    port: int = 0
    address: str | None = None
    content_addresses: Sequence[str] = ()
    withdraw: bool = False
    once: bool = False


async def publish_and_serve(
    loaded: Loaded,
    options: PublishOptions,
    *,
    show: ShowProgress,
    on_published: Callable[[PublishedPath], None],
    done: Callable[[dict[str, Any]], None],
) -> None:
    """With `once`, returns after the announcements; otherwise serves until it is cancelled."""
    folder = _folder(loaded)
    # An announcement names an address to read from, and with `--once` this process serves none.
    if options.once and options.address is None:
        raise Invalid("--once requires --address, where another `argosy ipni publish` serves the chain")
    async with AsyncExitStack() as closing:
        listener = None if options.once else bind_listener(options.host, options.port, settings="--host or --port")
        if listener is not None:
            closing.callback(listener.close)
        chain_at = _multiaddr(options.address or ("" if listener is None else f"http://{listener_address(listener)}"))
        content_at = [_multiaddr(each) for each in options.content_addresses]
        key = await asyncio.to_thread(open_key, folder / "key")
        # Before the chain is served: the announced head must include these changes.
        changes = await _change_chain(key, folder / CHAIN, content_at or [chain_at], options, show, on_published)
        store = await SqliteChain.read(folder / CHAIN)
        closing.push_async_callback(store.close)
        chain = await ReadOnlyChain.open(key, store, clock=SystemClock())
        announcer = AnnounceClient(options.announce_urls, clock=SystemClock(), random=system_random())
        closing.push_async_callback(announcer.close)
        head_announcer = HeadAnnouncer(chain, announcer, [chain_at], clock=SystemClock())
        serving = None if listener is None else asyncio.ensure_future(serve_app(publisher_app(chain), listener))
        if serving is not None:
            closing.callback(serving.cancel)
        done(_report(chain, changes, await head_announcer.announce(), None if listener is None else chain_at))
        if serving is not None:
            # The announcer repeats, because an indexer may start later than this process.
            await asyncio.gather(serving, head_announcer.run())


async def _change_chain(
    key: PrivateKey,
    path: Path,
    content_at: Sequence[str],
    options: PublishOptions,
    show: ShowProgress,
    on_published: Callable[[PublishedPath], None],
) -> Sequence[Change]:
    """Publishes or withdraws all paths while the chain is locked; one result per path."""
    store = await SqliteChain.open(path)
    try:
        publisher = await Publisher.open(key, store, addresses=content_at)
        if options.withdraw:
            return await withdraw_paths(options.paths, publisher)
        metadata = http_metadata if options.content_addresses else label_metadata
        return await publish_paths(options.paths, publisher, metadata=metadata, progress=_progress(show, on_published))
    finally:
        await store.close()


def _progress(
    show: ShowProgress, on_published: Callable[[PublishedPath], None]
) -> Callable[[Note | PublishedPath], None]:
    files = size_bytes = 0

    def progress(event: Note | PublishedPath) -> None:
        nonlocal files, size_bytes
        match event:
            case FileHashed(_, size):
                files, size_bytes = files + 1, size_bytes + size
                show(0.0, f"{files} files, {size_bytes >> 20} MiB hashed")
            case FileSkipped(path, reason):
                show(0.0, f"{path}: {reason}")
            case PublishedPath():
                on_published(event)

    return progress


def _folder(loaded: Loaded) -> Path:
    return user_data_dir(loaded) / "publisher"


def _report(
    chain: ReadOnlyChain, changes: Sequence[Change], announced: Sequence[AnnounceResult], serving: str | None
) -> dict[str, Any]:
    return {
        "publisher": chain.id,
        "head": None if chain.head is None else str(chain.head),
        "published": [
            {
                "path": str(each.path),
                "context": each.context.hex(),
                "files": each.files,
                "bytes": each.size_bytes,
                "advertisement": None if each.ad is None else str(each.ad),
            }
            for each in changes
            if isinstance(each, PublishedPath)
        ],
        "withdrawn": [
            {
                "path": str(each.path),
                "context": each.context.hex(),
                "files": each.files,
                "advertisement": None if each.ad is None else str(each.ad),
            }
            for each in changes
            if isinstance(each, WithdrawnPath)
        ],
        "announced": [
            {"url": each.url, "error": None if each.error is None else str(each.error)} for each in announced
        ],
        "serving": serving,
    }


def _multiaddr(address: str) -> str:
    """Converts a URL to a multiaddr; checks one that is a multiaddr already."""
    if address.startswith("/"):
        multiaddr.to_bytes(address)  # raises Invalid
        return address
    return multiaddr.from_url(address)
