"""Opens shards: one SlateDB each, all of a process in one location (memory, a directory, a bucket).

    store = await SlateShardStore.open("file:///var/lib/argosy/jobs", settings)
    rows = await store.shard("7f3a", may_serve=lambda: node.holds(unit))

The databases of a process share one block cache and one set of threads. Opening a shard makes the opener its writer and
fences the previous one. A `ShardLocation` knows what SlateDB does not: which shards exist, what must be done before and
after one is opened, and what remains to be removed when one is deleted.
"""

import asyncio
import json
import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import unquote, urlsplit

from slatedb.uniffi import (  # type: ignore[import-untyped]
    AdminBuilder,
    CloneSourceSpec,
    CompactionSpec,
    DbBuilder,
    DbCache,
    KeyRange,
    MokaCacheOptions,
    ObjectStore,
    ObjectStoreBuilder,
    ObjectStoreType,
    Settings,
    SourceId,
)

from argosy.base import logs
from argosy.base.errors import Conflict, Invalid, NotFound, Unavailable
from argosy.jobs.backends.fsync import DirSync, remove_empty_manifests
from argosy.jobs.backends.s3 import REQUEST_S_MAX, S3Bucket, bucket_of
from argosy.jobs.backends.slatedb import SlateError, SlateKV, always, error_from_slatedb
from argosy.jobs.backends.slatedb_fastcopy import copier
from argosy.jobs.ports import SortedRun, StorageInfo
from argosy.jobs.settings import ShardStoreSettings

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

    async def after_open(self, shard: str) -> DirSync | None:
        """What makes the files of a shard that was just opened durable, if anything is needed."""
        return None

    async def remove(self, shard: str) -> None:
        """After a shard's database was deleted: what is left of it."""
        return


class MemoryLocation(ShardLocation):
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


class DirLocation(ShardLocation):
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

    async def after_open(self, shard: str) -> DirSync | None:
        if not self._is_synced:
            return None
        sync = DirSync(self._folder / shard)
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


class BucketLocation(ShardLocation):
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


def parse_location(url: str, settings: ShardStoreSettings, environ: Mapping[str, str]) -> ShardLocation:
    """The place that a URL names; Invalid if it names none."""
    parts = urlsplit(url)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise Invalid("a store's URL holds a place only: keys for S3 belong into s3_access_key_id and its kin")
    match parts.scheme:
        case "memory" if not parts.path.strip("/") and not parts.netloc:
            return MemoryLocation()
        case "file" if not parts.netloc and parts.path.startswith("/"):
            return DirLocation(Path(unquote(parts.path)), is_synced=settings.fsync == "always")
        case "s3" if parts.netloc:
            prefix = f"{parts.path.strip('/')}/".lstrip("/")
            if not _PREFIX.fullmatch(prefix):
                raise Invalid(f"the prefix {prefix!r} must be made of letters, digits and _ - . = between slashes")
            bucket = bucket_of(parts.netloc, settings, environ)
            return BucketLocation(bucket, prefix, is_probed=settings.s3_probe == "always")
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


T = TypeVar("T")

SYNC_THREADS = 8  # shards wait for the disk side by side
STORE_RETRIES_MAX = 4  # SlateDB would else try for ever, and nobody be told

_SHARD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_cache_ids = count(1)


class SlateShardStore:
    """Implements the cluster's `ShardStore`: the shards of one location."""

    def __init__(self, place: ShardLocation, settings: ShardStoreSettings) -> None:
        self._place = place
        self._settings = settings
        self._threads = ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="argosy-sync")
        self._cache: DbCache | None = None
        if settings.cache_bytes:
            options = MokaCacheOptions(max_capacity=settings.cache_bytes, time_to_live=None, time_to_idle=None)
            self._cache = DbCache.new_moka_cache(options)

    @classmethod
    async def open(
        cls, url: str, settings: ShardStoreSettings | None = None, *, environ: Mapping[str, str] | None = None
    ) -> Self:
        """Makes sure that the place can be used safely. `environ` holds the AWS_… variables, if they are to count."""
        copier.install()
        settings = settings or ShardStoreSettings()
        place = parse_location(url, settings, environ or {})
        await place.prepare()
        return cls(place, settings)

    async def shard(self, shard: str, *, may_serve: Callable[[], bool] = always) -> SlateKV:
        """Opens a shard, new or not, as its one writer."""
        path = self._path(shard)
        await self._place.before_open(shard)
        builder = DbBuilder(path, self._place.objects)
        builder.with_settings(_native(self._settings))
        if self._cache is None:
            builder.with_db_cache_disabled()
        else:
            builder.with_db_cache(self._cache, next(_cache_ids))
        db = await self._done(builder.build(), shard)
        sync = await self._place.after_open(shard)
        return SlateKV(
            db,
            name=f"{self._place.shown}/{shard}",
            settings=self._settings,
            may_serve=may_serve,
            sync=sync,
            threads=self._threads,
        )

    async def shards(self) -> list[str]:
        """The ids of the shards that have been opened here at least once, sorted."""
        return await self._place.shards()

    async def clone(self, parent: str, child: str, *, start: bytes | None = None, end: bytes | None = None) -> None:
        """Makes `child` of the parent's rows with start <= key < end, without copying them.

        Close the parent first, in good order: rows that are only in its write-ahead files would not come along, so it
        is opened here once more and closed, which puts them into tables and fences whoever still has it open.
        """
        present = await self.shards()
        if parent not in present:
            raise NotFound(f"there is no shard {parent!r} to clone")
        if child in present:
            raise Conflict(f"there is a shard {child!r} already: delete it first, or choose another id")
        rows = await self.shard(parent)
        await rows.close()
        bounds = KeyRange(start=start, start_inclusive=True, end=end, end_inclusive=False)
        source = CloneSourceSpec(
            path=self._path(parent),
            checkpoint=None,
            projection_range=None if start is None and end is None else bounds,
        )
        admin = AdminBuilder(self._path(child), self._place.objects).build()
        await self._done(admin.create_clone_builder_from_source(source).build(), child)
        await self._place.before_open(child)
        await self._place.after_open(child)

    async def delete(self, shard: str) -> None:
        """Removes a shard for good. Conflict while a clone still reads the shard's tables."""
        present = await self.shards()
        if shard not in present:
            raise NotFound(f"there is no shard {shard!r} to delete")
        readers = [other for other in present if other != shard and await self._reads(other, self._path(shard))]
        if readers:
            raise Conflict(f"shard {shard!r} cannot be deleted: its tables are still read by {', '.join(readers)}")
        admin = AdminBuilder(self._path(shard), self._place.objects).build()
        await self._done(admin.delete_db(True), shard)
        await self._place.remove(shard)

    async def close(self) -> None:
        """After all its shards are closed."""
        await asyncio.to_thread(self._threads.shutdown)

    async def _reads(self, shard: str, path: str) -> bool:
        admin = AdminBuilder(self._path(shard), self._place.objects).build()
        manifest = await self._done(admin.read_manifest(None), shard)
        return manifest is not None and any(each.path == path for each in manifest.external_dbs)

    async def _done(self, call: Coroutine[Any, Any, T], shard: str) -> T:
        name, seconds = f"{self._place.shown}/{shard}", self._settings.open_s_max
        try:
            async with asyncio.timeout(seconds):
                return await call
        except SlateError as error:
            raise error_from_slatedb(error, store=name) from error
        except TimeoutError as error:
            raise Unavailable(f"{name} has not answered for {seconds:g} s: is its storage reachable?") from error

    def _path(self, shard: str) -> str:
        if not _SHARD.fullmatch(shard):
            raise Invalid(f"{shard[:120]!r} is no id of a shard: use up to 100 letters, digits, - and _")
        return f"{self._place.prefix}{shard}"

    async def storage(self, shard: str) -> StorageInfo:
        manifest = await self._manifest(shard)
        runs = tuple(SortedRun(run.id, len(run.sst_views), run.estimated_size_bytes) for run in manifest.compacted)
        return StorageInfo(len(manifest.l0), sum(view.estimated_size_bytes for view in manifest.l0), runs)

    async def compact(self, shard: str) -> None:
        """The compaction runs beside everything else, in the process that has the shard open."""
        manifest = await self._manifest(shard)
        sources = [SourceId.SST_VIEW(view.id) for view in manifest.l0]
        sources += [SourceId.SORTED_RUN(run.id) for run in manifest.compacted]
        if len(sources) < 2:
            raise Conflict(f"shard {shard} lies in {len(sources)} tables or runs: there is nothing to merge")
        # The newest run that takes part names the result; without one, the first.
        destination = min((run.id for run in manifest.compacted), default=0)
        spec = CompactionSpec.TIERED(segment=b"", sources=sources, destination=destination)
        admin = AdminBuilder(self._path(shard), self._place.objects).build()
        await self._done(admin.submit_compaction(spec), shard)

    async def _manifest(self, shard: str) -> Any:
        admin = AdminBuilder(self._path(shard), self._place.objects).build()
        manifest = await self._done(admin.read_manifest(None), shard)
        if manifest is None:
            raise NotFound(f"there is no shard {shard!r}")
        return manifest


def _native(settings: ShardStoreSettings) -> Settings:
    """SlateDB's own settings; what is not named here keeps SlateDB's default."""
    kept = f"{settings.wal_retention_s:g}s"
    native = Settings.default()
    chosen = {
        "flush_interval": None,  # see `slatedb`: whoever waits flushes
        "l0_sst_size_bytes": settings.l0_bytes,
        "max_unflushed_bytes": settings.unflushed_bytes_max,
        "object_store_max_retries": STORE_RETRIES_MAX,
        "garbage_collector_options.wal_options": {"interval": kept, "min_age": kept, "dry_run": False},
    }
    for name, value in chosen.items():
        native.set(name, json.dumps(value))
    return native
