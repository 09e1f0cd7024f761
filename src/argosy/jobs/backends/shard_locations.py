"""The three kinds of place that shards can be kept in: memory, a folder, a bucket.

A place knows what SlateDB does not tell: which shards are there, what must be done before and after one is opened, and
what is left to remove when one is deleted.
"""

import asyncio
import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from slatedb.uniffi import ObjectStore, ObjectStoreBuilder, ObjectStoreType  # type: ignore[import-untyped]

from argosy.base import logs
from argosy.base.errors import Invalid, Unavailable
from argosy.jobs.backends.fsync import FolderSync, remove_empty_manifests
from argosy.jobs.backends.s3 import REQUEST_S_MAX, S3Bucket, bucket_of
from argosy.jobs.backends.settings import ShardStoreSettings
from argosy.jobs.backends.slatedb import SlateError, error_from_slatedb

SCHEMES = ("memory", "file", "s3")

_log = logs.get("jobs.slatedb")
_PREFIX = re.compile(r"([A-Za-z0-9_=-][A-Za-z0-9_.=-]*/)*")


class ShardLocation(ABC):
    """Where a store's shards are."""

    def __init__(self, objects: ObjectStore, prefix: str, shown: str) -> None:
        self.objects = objects
        self.prefix = prefix  # of every shard's path: empty, or ending in a slash
        self.shown = shown  # for messages: no secrets

    async def prepare(self) -> None:
        """Makes sure, once, that shards can be kept safely here."""
        return

    @abstractmethod
    async def shards(self) -> list[str]: ...

    async def before_open(self, shard: str) -> None:
        """What a shard needs before it is opened."""
        return

    async def after_open(self, shard: str) -> FolderSync | None:
        """What makes the files of a shard that was just opened durable, if anything is needed."""
        return None

    async def remove(self, shard: str) -> None:
        """After a shard's database was deleted: what is left of it."""
        return


class MemoryPlace(ShardLocation):
    """Gone with the process."""

    def __init__(self) -> None:
        super().__init__(ObjectStore.resolve("memory:///"), "", "memory://")
        self._shards: set[str] = set()

    async def shards(self) -> list[str]:
        return sorted(self._shards)

    async def before_open(self, shard: str) -> None:
        self._shards.add(shard)

    async def remove(self, shard: str) -> None:
        self._shards.discard(shard)


class FolderPlace(ShardLocation):
    """A folder, one beneath it for each shard."""

    def __init__(self, folder: Path, *, is_synced: bool) -> None:
        self._folder = folder
        self._is_synced = is_synced
        try:
            folder.mkdir(parents=True, exist_ok=True)
            builder = ObjectStoreBuilder(ObjectStoreType.LOCAL)
            builder.with_config("local_path", str(folder))
            objects = builder.build()
        except OSError as error:
            raise Invalid(f"the folder {folder} cannot be used for shards: {error.strerror}") from error
        super().__init__(objects, "", f"file://{folder}")

    async def prepare(self) -> None:
        if not os.access(self._folder, os.W_OK | os.X_OK):
            raise Invalid(f"the folder {self._folder} cannot be written to: shards cannot be kept there")

    async def shards(self) -> list[str]:
        return await asyncio.to_thread(self._shards_now)

    async def before_open(self, shard: str) -> None:
        for path in await asyncio.to_thread(remove_empty_manifests, self._folder / shard):
            _log.warning("empty manifest removed after a crash", shard=shard, file=path.name)

    async def after_open(self, shard: str) -> FolderSync | None:
        if not self._is_synced:
            return None
        sync = FolderSync(self._folder / shard)
        try:
            await asyncio.to_thread(sync.settle)
        except OSError as error:
            raise Unavailable(f"the disk under {self.shown}/{shard} does not take files: {error.strerror}") from error
        return sync

    async def remove(self, shard: str) -> None:
        await asyncio.to_thread(shutil.rmtree, self._folder / shard, ignore_errors=True)

    def _shards_now(self) -> list[str]:
        try:
            return sorted(path.name for path in self._folder.iterdir() if (path / "manifest").is_dir())
        except OSError as error:
            raise Unavailable(f"the folder {self._folder} cannot be read: {error.strerror}") from error


class BucketPlace(ShardLocation):
    """A prefix of a bucket."""

    def __init__(self, bucket: S3Bucket, prefix: str, *, is_probed: bool) -> None:
        self._bucket = bucket
        self._is_probed = is_probed
        super().__init__(_s3_objects(bucket), prefix, f"s3://{bucket.name}/{prefix}".rstrip("/"))

    async def prepare(self) -> None:
        if self._is_probed:
            await self._bucket.check_conditional_puts(self.prefix)

    async def shards(self) -> list[str]:
        folders, _ = await self._bucket.list_folder(self.prefix)
        return folders


def place_of(url: str, settings: ShardStoreSettings, environ: Mapping[str, str]) -> ShardLocation:
    """The place that a URL names; Invalid if it names none."""
    parts = urlsplit(url)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise Invalid("a store's URL holds a place only: keys for S3 belong into s3_access_key_id and its kin")
    match parts.scheme:
        case "memory" if not parts.path.strip("/") and not parts.netloc:
            return MemoryPlace()
        case "file" if not parts.netloc and parts.path.startswith("/"):
            return FolderPlace(Path(unquote(parts.path)), is_synced=settings.fsync == "always")
        case "s3" if parts.netloc:
            prefix = f"{parts.path.strip('/')}/".lstrip("/")
            if not _PREFIX.fullmatch(prefix):
                raise Invalid(f"the prefix {prefix!r} must be made of letters, digits and _ - . = between slashes")
            bucket = bucket_of(parts.netloc, settings, environ)
            return BucketPlace(bucket, prefix, is_probed=settings.s3_probe == "always")
        case _:
            raise Invalid(
                f"{url[:80]!r} names no store for shards: write memory://, file:///FOLDER or s3://BUCKET/PREFIX"
            )


def _s3_objects(bucket: S3Bucket) -> ObjectStore:
    config = {
        **bucket.client_config(),
        "bucket": bucket.name,
        "allow_http": str(bucket.allows_http).lower(),
        "timeout": f"{REQUEST_S_MAX}s",
        "connect_timeout": f"{REQUEST_S_MAX}s",
    }
    builder = ObjectStoreBuilder(ObjectStoreType.S3)
    try:
        for name, value in config.items():
            builder.with_config(name, value)
        return builder.build()
    except SlateError as error:
        raise error_from_slatedb(error, store=f"s3://{bucket.name}") from error
