"""An assigner from its settings: reads the pool file, watches it for changes, and calls indexers over HTTP.

An unreadable or invalid file stops the start; later it is only reported and the previous configuration stays, so
that a typing error never empties a pool.
"""

import asyncio
from pathlib import Path

from argosy.base.clock import Clock, Random
from argosy.base.errors import ArgosyError, Invalid
from argosy.base.metrics import Metrics
from argosy.ipni.assigner.configuration import Configuration, PoolEntry, forward_urls, parse
from argosy.ipni.assigner.service import AssignerService
from argosy.ipni.formats.peer import parse_peer
from argosy.ipni.indexer_client import IndexerClient
from argosy.ipni.settings import AssignerSettings

# INDEXERS_MAX indexers with some hundred preset publishers each fit.
POOL_FILE_BYTES_MAX = 16 << 20


class Assigner:
    """The service and its pool file. `run` it until it is cancelled, then `close` it; `reload` on SIGHUP."""

    def __init__(self, settings: AssignerSettings, *, clock: Clock, random: Random, metrics: Metrics) -> None:
        self._settings = settings
        self._clock = clock
        self._path = None if settings.pool_file is None else Path(settings.pool_file)
        self._seen = _stamp(self._path)
        self.service = AssignerService(
            _read(self._path, settings), self._open, self._forward, clock=clock, random=random, metrics=metrics
        )

    async def run(self) -> None:
        running = asyncio.ensure_future(self.service.run())
        watching = asyncio.ensure_future(self._watch())
        try:
            await asyncio.gather(running, watching)
        finally:
            # Both: gather does not cancel the other when one of them fails.
            running.cancel()
            watching.cancel()
            await asyncio.gather(running, watching, return_exceptions=True)

    async def reload(self) -> None:
        """Reloads the file, changed or not; raises Invalid, changing nothing, if it is wrong."""
        self._seen = _stamp(self._path)
        try:
            configuration = _read(self._path, self._settings)
        except ArgosyError as why:
            self.service.telemetry.record_reload_failure(why)
            raise
        await self.service.reload(configuration)

    async def close(self) -> None:
        await self.service.close()

    async def _watch(self) -> None:
        while self._path is not None:
            await self._clock.sleep(self._settings.watch_s)
            await self.reload_if_changed()

    async def reload_if_changed(self) -> None:
        """Reloads the file if it changed since the last read."""
        if _stamp(self._path) != self._seen:
            try:
                await self.reload()
            except ArgosyError:
                pass  # logged by `reload`; the next change of the file is read again

    def _open(self, entry: PoolEntry) -> IndexerClient:
        token, call_s = self._settings.indexer_token, self._settings.call_s
        return IndexerClient(entry.admin_url, entry.find_url, entry.ingest_url, token=token, call_s=call_s)

    def _forward(self, url: str) -> IndexerClient:
        return IndexerClient(ingest_url=url, call_s=self._settings.call_s)


def defaults(settings: AssignerSettings) -> Configuration:
    """Values for what the pool file omits."""
    return Configuration(
        replication=settings.replication,
        preset_replication=settings.preset_replication,
        is_open=settings.is_open,
        exceptions=frozenset(parse_peer(peer) for peer in settings.exceptions),
        forward_urls=forward_urls(settings.forward_urls),
        poll_s=settings.poll_s,
        is_resending=settings.is_resending,
        is_filtering=settings.is_filtering,
    )


def _read(path: Path | None, settings: AssignerSettings) -> Configuration:
    if path is None:
        return defaults(settings)
    try:
        with path.open("rb") as file:
            data = file.read(POOL_FILE_BYTES_MAX + 1)
        text = data.decode()
    except (OSError, UnicodeDecodeError) as why:
        raise Invalid(f"the pool file {path} cannot be read ({why}): see assigner.pool_file") from None
    if len(data) > POOL_FILE_BYTES_MAX:
        raise Invalid(f"the pool file {path} has more than {POOL_FILE_BYTES_MAX} bytes")
    try:
        return parse(text, defaults(settings), is_toml=path.suffix == ".toml")
    except Invalid as why:
        raise Invalid(f"{path}: {why}") from None


def _stamp(path: Path | None) -> tuple[int, int, int] | None:
    """Identifies a version of the file, even if it was replaced within one tick of the clock (by its inode)."""
    try:
        found = None if path is None else path.stat()
    except OSError:
        return None
    return found and (found.st_mtime_ns, found.st_size, found.st_ino)
