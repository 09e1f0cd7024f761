"""Stores of the shard map: beside the shards, one object for each version (decision 0025).

A version is written once, under its number, and only if that number does not exist. SlateDB's fencing rests on the same
conditional put, so every store that is safe for shards is safe for the map, without another primitive.
"""

import asyncio
import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from argosy.base.errors import Conflict, Invalid, Unavailable
from argosy.jobs.backends.s3 import S3Bucket, bucket_of
from argosy.jobs.cluster.shard_map import ShardMap, ShardMapStore, decode_map, encode_map
from argosy.jobs.settings import ShardStoreSettings

VERSIONS_MAX = 99_999_999

_NAME = re.compile(r"shards-(\d{8})\.json")


def _name(version: int) -> str:
    if not 1 <= version <= VERSIONS_MAX:
        raise Invalid(f"the version of a shard map must be between 1 and {VERSIONS_MAX}; got {version}")
    return f"shards-{version:08d}.json"


def _version_exists(version: int) -> Conflict:
    return Conflict(f"version {version} of the shard map already exists; read it and retry")


def _link(draft: Path, target: Path, version: int) -> None:
    try:
        os.link(draft, target)
    except FileExistsError as error:
        raise _version_exists(version) from error


class MemoryShardMapStore:
    """The map in memory, for nodes in one process."""

    def __init__(self) -> None:
        self._versions: dict[int, bytes] = {}

    async def newest(self, known: int = 0) -> ShardMap | None:
        version = max(self._versions, default=0)
        return decode_map(self._versions[version]) if version > known else None

    async def add(self, shards: ShardMap) -> None:
        if shards.version in self._versions:
            raise _version_exists(shards.version)
        self._versions[shards.version] = encode_map(shards)


class DirShardMapStore:
    """The map in a directory. A version is a hard link to a synced file: it appears whole or not at all, and `link`
    fails if the name exists, which `rename` would overwrite."""

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
            return decode_map((self._folder / _name(version)).read_bytes()) if version > known else None
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unavailable(f"cannot read directory {self._folder}: {error.strerror}") from error

    def _add(self, shards: ShardMap) -> None:
        target = self._folder / _name(shards.version)
        # Under another name first: a reader must never find a half-written version.
        draft = self._folder / f".{target.name}.{secrets.token_hex(8)}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with draft.open("xb") as file:
                file.write(encode_map(shards))
                file.flush()
                os.fsync(file.fileno())
            _link(draft, target, shards.version)
            self._sync()  # the name itself, without which a power failure could undo a committed split
        except OSError as error:
            raise Unavailable(f"cannot write to directory {self._folder}: {error.strerror}") from error
        finally:
            with suppress(OSError):
                draft.unlink()

    def _sync(self) -> None:
        handle = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class S3ShardMapStore:
    """The map in a bucket, under the shards' prefix."""

    def __init__(self, bucket: S3Bucket, prefix: str) -> None:
        self._bucket = bucket
        self._prefix = prefix

    async def newest(self, known: int = 0) -> ShardMap | None:
        # The map changes with splits only, so mostly one read of the next number says that there is none.
        version = known or await self._last()
        found = None if known or not version else await self._read(version)
        # In a loop: several versions may have been added since the last read.
        while (later := await self._read(version + 1)) is not None:
            found, version = later, version + 1
        return found

    async def add(self, shards: ShardMap) -> None:
        try:
            await self._bucket.create(f"{self._prefix}{_name(shards.version)}", encode_map(shards))
        except Conflict as error:
            raise _version_exists(shards.version) from error
        except Invalid as error:  # permission denied, for example: it may be granted again, and nodes serve meanwhile
            raise Unavailable(str(error)) from error

    async def _read(self, version: int) -> ShardMap | None:
        try:
            body = await self._bucket.read(f"{self._prefix}{_name(version)}")
        except Invalid as error:
            raise Unavailable(str(error)) from error
        return None if body is None else decode_map(body)

    async def _last(self) -> int:
        """The greatest version, from a listing; needed once, since later versions are found by reading the next one."""
        try:
            _, names = await self._bucket.list_folder(self._prefix)
        except Invalid as error:
            raise Unavailable(str(error)) from error
        return max((int(found[1]) for name in names if (found := _NAME.fullmatch(name))), default=0)


def open_shard_map_store(url: str, settings: ShardStoreSettings, environ: Mapping[str, str]) -> ShardMapStore:
    """The store of the map beside the shards of a URL."""
    parts = urlsplit(url)
    match parts.scheme:
        case "memory":
            return MemoryShardMapStore()
        case "file":
            return DirShardMapStore(Path(unquote(parts.path)))
        case "s3":
            prefix = f"{parts.path.strip('/')}/".lstrip("/")
            return S3ShardMapStore(bucket_of(parts.netloc, settings, environ), prefix)
        case _:
            raise Invalid(
                f"invalid URL {url[:80]!r} for shards: use memory://, file:///DIRECTORY or s3://BUCKET/PREFIX"
            )
