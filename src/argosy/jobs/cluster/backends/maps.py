"""Where the map of shards is kept: beside the shards themselves, one object for each version.

A version is written once, under its number, and only if there is none of that number yet. That is the one conditional
put on which SlateDB's own safety rests, so wherever shards can be kept, so can the map; no other primitive is needed.
"""

import asyncio
import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from argosy.base.errors import Conflict, Invalid, Unavailable
from argosy.jobs.backends.s3 import Bucket, bucket_of
from argosy.jobs.backends.s3_signing import S3Keys
from argosy.jobs.backends.settings import ShardStoreSettings
from argosy.jobs.cluster.ports import MapStore
from argosy.jobs.cluster.shardmap import ShardMap, decoded, encoded

VERSIONS_MAX = 99_999_999
LIST_PAGES_MAX = 100

_NAME = re.compile(r"shards-(\d{8})\.json")


def _name(version: int) -> str:
    if not 1 <= version <= VERSIONS_MAX:
        raise Invalid(f"a map's version is a number from 1 to {VERSIONS_MAX}, not {version}")
    return f"shards-{version:08d}.json"


def _taken(version: int) -> Conflict:
    return Conflict(f"version {version} of the map of shards is there already: read it, and decide anew")


def _link(draft: Path, target: Path, version: int) -> None:
    try:
        os.link(draft, target)
    except FileExistsError as error:
        raise _taken(version) from error


class MemoryMaps:
    """The map of nodes that share a process, and end with it."""

    def __init__(self) -> None:
        self._versions: dict[int, bytes] = {}

    async def newest(self, known: int = 0) -> ShardMap | None:
        version = max(self._versions, default=0)
        return decoded(self._versions[version]) if version > known else None

    async def add(self, shards: ShardMap) -> None:
        if shards.version in self._versions:
            raise _taken(shards.version)
        self._versions[shards.version] = encoded(shards)


class FolderMaps:
    """The map in a folder. A version appears whole or not at all, by a hard link to a file that has been synced."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def newest(self, known: int = 0) -> ShardMap | None:
        return await asyncio.to_thread(self._newest, known)

    async def add(self, shards: ShardMap) -> None:
        await asyncio.to_thread(self._add, shards)

    def _newest(self, known: int) -> ShardMap | None:
        try:
            names = os.listdir(self._folder)
            version = max((int(found[1]) for name in names if (found := _NAME.fullmatch(name))), default=0)
            return decoded((self._folder / _name(version)).read_bytes()) if version > known else None
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unavailable(f"the folder {self._folder} cannot be read: {error.strerror}") from error

    def _add(self, shards: ShardMap) -> None:
        target = self._folder / _name(shards.version)
        draft = self._folder / f".{target.name}.{secrets.token_hex(8)}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with draft.open("xb") as file:
                file.write(encoded(shards))
                file.flush()
                os.fsync(file.fileno())
            _link(draft, target, shards.version)
            self._sync()
        except OSError as error:
            raise Unavailable(f"the folder {self._folder} cannot be written to: {error.strerror}") from error
        finally:
            with suppress(OSError):
                draft.unlink()

    def _sync(self) -> None:
        handle = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@dataclass(frozen=True)
class BucketMaps(Bucket):
    """The map in a bucket, under the shards' prefix."""

    prefix: str = ""

    async def newest(self, known: int = 0) -> ShardMap | None:
        version = known or await self._last()
        found = None if known or not version else await self._read(version)
        while (later := await self._read(version + 1)) is not None:
            found, version = later, version + 1
        return found

    async def add(self, shards: ShardMap) -> None:
        key, headers = f"{self.prefix}{_name(shards.version)}", {"if-none-match": "*"}
        answer = await self._ask("PUT", key, headers=headers, body=encoded(shards))
        if answer.status in (409, 412):     # 409: two puts met, and the other one may have won
            raise _taken(shards.version)
        if answer.status != 200:
            raise Unavailable(f"the S3 at {self.url} answers a put of the map of shards with {answer.status}")

    async def _read(self, version: int) -> ShardMap | None:
        answer = await self._ask("GET", f"{self.prefix}{_name(version)}")
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise Unavailable(f"the S3 at {self.url} answers a read of the map of shards with {answer.status}")
        return decoded(answer.body)

    async def _last(self) -> int:
        """The greatest number there is: asked once, afterwards the next one is asked for."""
        last, query = 0, {"list-type": "2", "prefix": f"{self.prefix}shards-"}
        for _ in range(LIST_PAGES_MAX):
            answer = await self._ask("GET", "", query=query)
            if answer.status != 200:
                raise Unavailable(f"the S3 at {self.url} answers a listing with {answer.status}")
            numbers = [int(number) for number in _NAME.findall(answer.body.decode(errors="replace"))]
            if max(numbers, default=0) <= last:
                return last
            last = max(numbers)
            query = {**query, "start-after": f"{self.prefix}{_name(last)}"}
        raise Unavailable(f"{self.name}/{self.prefix} holds more versions of the map than can be listed")


def maps_at(url: str, settings: ShardStoreSettings, environ: Mapping[str, str]) -> MapStore:
    """The map that lies beside the shards of a URL."""
    parts = urlsplit(url)
    match parts.scheme:
        case "memory":
            return MemoryMaps()
        case "file":
            return FolderMaps(Path(unquote(parts.path)))
        case "s3":
            keys = S3Keys(settings.s3_access_key_id, settings.s3_secret_access_key, settings.s3_session_token)
            found = bucket_of(
                parts.netloc, endpoint=settings.s3_endpoint, region=settings.s3_region, keys=keys, environ=environ
            )
            prefix = f"{parts.path.strip('/')}/".lstrip("/")
            return BucketMaps(found.name, found.region, found.endpoint, found.keys, prefix)
        case _:
            raise Invalid(f"{url[:80]!r} names no place for shards: write memory://, file:///FOLDER or s3://BUCKET/PREFIX")
