"""The list of indexers, from the settings and from a file that is reloaded when it changes.

The file is the assigner's pool file, of which only the find URLs count here, or a JSON list of URLs. An invalid file
fails the start; later it is only logged and the previous list stays, so that an editing mistake never leaves a gateway
without indexers.
"""

from pathlib import Path

import msgspec

from argosy.base.clock import Clock
from argosy.base.errors import ArgosyError, Invalid
from argosy.gateway.content.model import Backend
from argosy.gateway.content.service import ContentGateway
from argosy.gateway.settings import ContentSettings
from argosy.ipni.assigner.configuration import INDEXERS_MAX, Configuration, parse

# Bounds the memory that a wrong path can cost.
FILE_BYTES_MAX = 16 << 20


def read_backends(settings: ContentSettings) -> list[Backend]:
    """Indexers of the settings first, then those of the file, then those for double-hashed lookups only."""
    urls = [*settings.backends, *_read_urls(settings.pool_file)]
    if len(urls) > INDEXERS_MAX:
        raise Invalid(f"too many indexers: {len(urls)} (at most {INDEXERS_MAX})")
    second = [Backend.at(url, is_for_second_hashes=True) for url in settings.dh_backends]
    return [*(Backend.at(url) for url in urls), *second]


class PoolFileWatcher:
    """Keeps the indexer list of a gateway in step with the file. `run` until cancelled; call `reload` on SIGHUP."""

    def __init__(self, gateway: ContentGateway, settings: ContentSettings, clock: Clock) -> None:
        self._gateway = gateway
        self._settings = settings
        self._clock = clock
        # The stamp is taken before the file is read: a change in between is then read again, instead of being missed.
        self._seen = _stamp(settings.pool_file)
        gateway.replace(read_backends(settings))

    async def run(self) -> None:
        while self._settings.pool_file is not None:
            await self._clock.sleep(self._settings.watch_s)
            self.reload_if_changed()

    def reload_if_changed(self) -> None:
        """Reload the file if it changed; an invalid file is only logged, and the old list stays."""
        if _stamp(self._settings.pool_file) != self._seen:
            try:
                self.reload()
            except ArgosyError as why:
                self._gateway.telemetry.record_reload_failure(why)

    def reload(self, settings: ContentSettings | None = None) -> None:
        """Reload the file and settings; raises Invalid and changes nothing if the file is invalid."""
        wanted = settings or self._settings
        seen = _stamp(wanted.pool_file)
        try:
            self._gateway.replace(read_backends(wanted))
            self._settings = wanted
        finally:
            self._seen = seen  # also of an invalid file, so that it is reported once and not on every check


def _read_urls(path: str | None) -> list[str]:
    if path is None:
        return []
    try:
        with Path(path).open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)  # one more byte shows that the file is too large
        text = data.decode()
    except (OSError, UnicodeDecodeError) as why:
        raise Invalid(f"cannot read the pool file {path}: {why}; see content.pool_file") from None
    if len(data) > FILE_BYTES_MAX:
        raise Invalid(f"pool file {path} too large (at most {FILE_BYTES_MAX} bytes)")
    try:
        return _parse_urls(text, is_toml=path.endswith(".toml"))
    except Invalid as why:
        raise Invalid(f"{path}: {why}") from None


def _parse_urls(text: str, *, is_toml: bool) -> list[str]:
    if not is_toml and text.lstrip().startswith("["):
        try:
            return msgspec.json.decode(text, type=list[str])
        except msgspec.DecodeError as why:
            raise Invalid(f"not a JSON list of URLs: {why}") from None
    return [entry.find_url for entry in parse(text, Configuration(), is_toml=is_toml).entries]


def _stamp(path: str | None) -> tuple[int, int, int] | None:
    """The identity of a file version; includes the inode, so a replacement within one clock tick is seen."""
    try:
        found = None if path is None else Path(path).stat()
    except OSError:
        return None
    return found and (found.st_mtime_ns, found.st_size, found.st_ino)
