"""A publisher of files as a process: publishes what is named, announces it, and serves the chain.

The chain is locked for others only while it grows; who serves it serves what they publish, too.
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
from argosy.ipni.formats.keys import PrivateKey
from argosy.ipni.publish.backends.file_hashes import Hashed, Note, Skipped
from argosy.ipni.publish.backends.key_file import open_key
from argosy.ipni.publish.backends.sqlite import SqliteChain
from argosy.ipni.publish.files import (
    Published,
    Withdrawn,
    had_over_http,
    only_named,
    publish_paths,
    withdraw_paths,
)
from argosy.ipni.publish.head_announcer import AnnounceClient, AnnounceResult, HeadAnnouncer
from argosy.ipni.publish.http import publisher_app
from argosy.ipni.publish.publisher import Publisher, ReadOnlyChain

__all__ = ["Published", "Wish", "publish_and_serve"]

CHAIN = "chain.sqlite"

Show = Callable[[float, str], None]
Change = Published | Withdrawn


@dataclass(frozen=True)
class Wish:
    """What somebody wants published, and how indexers come by it."""

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
    wish: Wish,
    *,
    show: Show,
    told: Callable[[Published], None],
    done: Callable[[dict[str, Any]], None],
) -> None:
    """Returns when all is announced if it is to be done once, and otherwise when it is cancelled."""
    folder = _folder(loaded)
    if wish.once and wish.address is None:
        raise Invalid("--once needs --address: where another `argosy ipni publish` serves the chain")
    async with AsyncExitStack() as closing:
        listener = None if wish.once else bind_listener(wish.host, wish.port, settings="--host or --port")
        if listener is not None:
            closing.callback(listener.close)
        chain_at = _multiaddr(wish.address or ("" if listener is None else f"http://{listener_address(listener)}"))
        content_at = [_multiaddr(each) for each in wish.content_addresses]
        key = await asyncio.to_thread(open_key, folder / "key")
        changes = await _changed(key, folder / CHAIN, content_at or [chain_at], wish, show, told)
        store = await SqliteChain.read(folder / CHAIN)
        closing.push_async_callback(store.close)
        chain = await ReadOnlyChain.open(key, store, clock=SystemClock())
        announcer = AnnounceClient(wish.announce_urls, clock=SystemClock(), random=system_random())
        closing.push_async_callback(announcer.close)
        herald = HeadAnnouncer(chain, announcer, [chain_at], clock=SystemClock())
        serving = None if listener is None else asyncio.ensure_future(serve_app(publisher_app(chain), listener))
        if serving is not None:
            closing.callback(serving.cancel)
        done(_shown(chain, changes, await herald.announce(), None if listener is None else chain_at))
        if serving is not None:
            await asyncio.gather(serving, herald.run())


async def _changed(
    key: PrivateKey, path: Path, content_at: Sequence[str], wish: Wish, show: Show, told: Callable[[Published], None]
) -> Sequence[Change]:
    """What became of each path. Holds the chain until all of it is published or taken back."""
    store = await SqliteChain.open(path)
    try:
        publisher = await Publisher.open(key, store, addresses=content_at)
        if wish.withdraw:
            return await withdraw_paths(wish.paths, publisher)
        metadata = had_over_http if wish.content_addresses else only_named
        return await publish_paths(wish.paths, publisher, metadata=metadata, progress=_progress(show, told))
    finally:
        await store.close()


def _progress(show: Show, told: Callable[[Published], None]) -> Callable[[Note | Published], None]:
    files = size_bytes = 0

    def progress(event: Note | Published) -> None:
        nonlocal files, size_bytes
        match event:
            case Hashed(_, size):
                files, size_bytes = files + 1, size_bytes + size
                show(0.0, f"{files} files, {size_bytes >> 20} MiB hashed")
            case Skipped(path, reason):
                show(0.0, f"{path}: {reason}")
            case Published():
                told(event)

    return progress


def _folder(loaded: Loaded) -> Path:
    return user_data_dir(loaded) / "publisher"


def _shown(
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
                "advertisement": None if each.advert is None else str(each.advert),
            }
            for each in changes
            if isinstance(each, Published)
        ],
        "withdrawn": [
            {
                "path": str(each.path),
                "context": each.context.hex(),
                "files": each.files,
                "advertisement": None if each.advert is None else str(each.advert),
            }
            for each in changes
            if isinstance(each, Withdrawn)
        ],
        "announced": [
            {"url": each.url, "error": None if each.error is None else str(each.error)} for each in announced
        ],
        "serving": serving,
    }


def _multiaddr(address: str) -> str:
    """A URL or a multiaddr, as a multiaddr."""
    if address.startswith("/"):
        multiaddr.to_bytes(address)  # Invalid if it is none
        return address
    return multiaddr.from_url(address)
