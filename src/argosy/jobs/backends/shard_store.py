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

    def __init__(self, objects: ObjectStore, prefix: str, label: str) -> None:
        self.objects = objects
        self.prefix = prefix  # of every shard's path: empty, or ending in a slash
        self.label = label  # for messages: no secrets

    async def prepare(self) -> None:
        """Checks, once, that shards can be stored safely here."""
        return

    @abstractmethod
    async def shards(self) -> list[str]: ...

    async def before_open(self, shard: str) -> None:
        """Called before a shard is opened."""
        return

    async def after_open(self, shard: str) -> DirSync | None:
        """Called after a shard was opened; returns what makes its files durable, if anything is needed."""
        return None

    async def remove(self, shard: str) -> None:
        """Removes what remains of a shard after its database was deleted."""
        return


class MemoryLocation(ShardLocation):
    """Shards in memory, lost with the process."""

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
    """A directory, with a subdirectory for each shard."""

    def __init__(self, folder: Path, *, is_synced: bool) -> None:
        self._folder = folder
        self._is_synced = is_synced
        try:
            folder.mkdir(parents=True, exist_ok=True)
            builder = ObjectStoreBuilder(ObjectStoreType.LOCAL)
            builder.with_config("local_path", str(folder))
            objects = builder.build()
        except OSError as error:
            raise Invalid(f"cannot use directory {folder} for shards: {error.strerror}") from error
        super().__init__(objects, "", f"file://{folder}")

    async def prepare(self) -> None:
        # Now and with its name, instead of an error of SlateDB at the first write.
        if not os.access(self._folder, os.W_OK | os.X_OK):
            raise Invalid(f"cannot use directory {self._folder} for shards: it is not writable")

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
            await asyncio.to_thread(sync.sync_all)
        except OSError as error:
            raise Unavailable(f"cannot sync {self.label}/{shard} to disk: {error.strerror}") from error
        return sync

    async def remove(self, shard: str) -> None:
        await asyncio.to_thread(shutil.rmtree, self._folder / shard, ignore_errors=True)

    def _shards_now(self) -> list[str]:
        try:
            return sorted(path.name for path in self._folder.iterdir() if (path / "manifest").is_dir())
        except OSError as error:
            raise Unavailable(f"cannot read directory {self._folder}: {error.strerror}") from error


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
    """The location of a URL; Invalid if it is none."""
    parts = urlsplit(url)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise Invalid("the URL of a store must not contain credentials or a query; set s3_access_key_id and the like")
    match parts.scheme:
        case "memory" if not parts.path.strip("/") and not parts.netloc:
            return MemoryLocation()
        case "file" if not parts.netloc and parts.path.startswith("/"):
            return DirLocation(Path(unquote(parts.path)), is_synced=settings.fsync == "always")
        case "s3" if parts.netloc:
            prefix = f"{parts.path.strip('/')}/".lstrip("/")
            if not _PREFIX.fullmatch(prefix):
                raise Invalid(f"invalid prefix {prefix!r}: use letters, digits and _ - . = between slashes")
            bucket = bucket_of(parts.netloc, settings, environ)
            return BucketLocation(bucket, prefix, is_probed=settings.s3_probe == "always")
        case _:
            raise Invalid(
                f"invalid URL {url[:80]!r} for shards: use memory://, file:///DIRECTORY or s3://BUCKET/PREFIX"
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

SYNC_THREADS = 8  # of the process; shards wait for the disk concurrently
STORE_RETRIES_MAX = 4  # SlateDB's default is to retry for ever, so a failure would never be reported

_SHARD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_cache_ids = count(1)


class SlateShardStore:
    """Implements the cluster's `ShardStore`: the shards of one location."""

    def __init__(self, location: ShardLocation, settings: ShardStoreSettings) -> None:
        self._location = location
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
        """Opens the store after checking that its location is safe. `environ` may have AWS_… variables."""
        # Before any database is opened: it replaces functions of the binding.
        copier.install()
        settings = settings or ShardStoreSettings()
        location = parse_location(url, settings, environ or {})
        # Checked once, before the first shard: an unsafe store must stop the start.
        await location.prepare()
        return cls(location, settings)

    async def shard(self, shard: str, *, may_serve: Callable[[], bool] = always) -> SlateKV:
        """Opens a shard, new or not, as its one writer."""
        path = self._path(shard)
        await self._location.before_open(shard)
        builder = DbBuilder(path, self._location.objects)
        builder.with_settings(_native(self._settings))
        # Switched off explicitly, or SlateDB would make a cache of its own for each database.
        if self._cache is None:
            builder.with_db_cache_disabled()
        else:
            # The id separates the entries of databases in the shared cache: their table ids may be equal.
            builder.with_db_cache(self._cache, next(_cache_ids))
        db = await self._run(builder.build(), shard)
        # Before the first read: rows that a crashed writer had written and not synced become durable now.
        sync = await self._location.after_open(shard)
        return SlateKV(
            db,
            name=f"{self._location.label}/{shard}",
            settings=self._settings,
            may_serve=may_serve,
            sync=sync,
            threads=self._threads,
        )

    async def shards(self) -> list[str]:
        """The ids of the shards that have been opened here at least once, sorted."""
        return await self._location.shards()

    async def clone(self, parent: str, child: str, *, start: bytes | None = None, end: bytes | None = None) -> None:
        """Creates `child` with the parent's rows with start <= key < end, without copying tables.

        The parent must have been closed. It is opened here once more and closed, because a clone lacks rows that are
        only in write-ahead files; that writes them into tables, and fences a writer that still has it open.
        """
        present = await self.shards()
        if parent not in present:
            raise NotFound(f"shard {parent!r} not found")
        if child in present:
            raise Conflict(f"shard {child!r} already exists; delete it first, or choose another id")
        rows = await self.shard(parent)
        await rows.close()
        bounds = KeyRange(start=start, start_inclusive=True, end=end, end_inclusive=False)
        source = CloneSourceSpec(
            path=self._path(parent),
            checkpoint=None,
            projection_range=None if start is None and end is None else bounds,
        )
        admin = AdminBuilder(self._path(child), self._location.objects).build()
        await self._run(admin.create_clone_builder_from_source(source).build(), child)
        await self._location.before_open(child)
        await self._location.after_open(child)

    async def delete(self, shard: str) -> None:
        """Deletes a shard. Conflict while a clone still reads the shard's tables."""
        present = await self.shards()
        if shard not in present:
            raise NotFound(f"shard {shard!r} not found")
        # Clones read the tables of their parent until they are compacted.
        readers = [other for other in present if other != shard and await self._reads(other, self._path(shard))]
        if readers:
            raise Conflict(f"cannot delete shard {shard!r}: its tables are still read by {', '.join(readers)}")
        admin = AdminBuilder(self._path(shard), self._location.objects).build()
        await self._run(admin.delete_db(True), shard)
        await self._location.remove(shard)

    async def close(self) -> None:
        """To be called after all shards are closed."""
        await asyncio.to_thread(self._threads.shutdown)

    async def _reads(self, shard: str, path: str) -> bool:
        admin = AdminBuilder(self._path(shard), self._location.objects).build()
        manifest = await self._run(admin.read_manifest(None), shard)
        return manifest is not None and any(each.path == path for each in manifest.external_dbs)

    async def _run(self, call: Coroutine[Any, Any, T], shard: str) -> T:
        name, seconds = f"{self._location.label}/{shard}", self._settings.open_s_max
        try:
            async with asyncio.timeout(seconds):
                return await call
        except SlateError as error:
            raise error_from_slatedb(error, store=name) from error
        except TimeoutError as error:
            raise Unavailable(f"{name} timed out after {seconds:g} s; check that its storage is reachable") from error

    def _path(self, shard: str) -> str:
        if not _SHARD.fullmatch(shard):
            raise Invalid(f"invalid shard id {shard[:120]!r}: use up to 100 letters, digits, - and _")
        return f"{self._location.prefix}{shard}"

    async def storage(self, shard: str) -> StorageInfo:
        manifest = await self._manifest(shard)
        runs = tuple(SortedRun(run.id, len(run.sst_views), run.estimated_size_bytes) for run in manifest.compacted)
        return StorageInfo(len(manifest.l0), sum(view.estimated_size_bytes for view in manifest.l0), runs)

    async def compact(self, shard: str) -> None:
        """The compaction runs in the background, in the process that has the shard open."""
        manifest = await self._manifest(shard)
        sources = [SourceId.SST_VIEW(view.id) for view in manifest.l0]
        sources += [SourceId.SORTED_RUN(run.id) for run in manifest.compacted]
        # SlateDB merges two or more; one table alone is merged already.
        if len(sources) < 2:
            raise Conflict(f"nothing to compact: shard {shard} has {len(sources)} tables or runs")
        # The newest run that takes part names the result; without one, the first.
        destination = min((run.id for run in manifest.compacted), default=0)
        spec = CompactionSpec.TIERED(segment=b"", sources=sources, destination=destination)
        admin = AdminBuilder(self._path(shard), self._location.objects).build()
        await self._run(admin.submit_compaction(spec), shard)

    async def _manifest(self, shard: str) -> Any:
        admin = AdminBuilder(self._path(shard), self._location.objects).build()
        manifest = await self._run(admin.read_manifest(None), shard)
        if manifest is None:
            raise NotFound(f"shard {shard!r} not found")
        return manifest


def _native(settings: ShardStoreSettings) -> Settings:
    """SlateDB's settings; the others keep their defaults."""
    kept = f"{settings.wal_retention_s:g}s"
    native = Settings.default()
    chosen = {
        "flush_interval": None,  # callers that wait for durability flush; see `slatedb`
        "l0_sst_size_bytes": settings.l0_bytes,
        "max_unflushed_bytes": settings.unflushed_bytes_max,
        "object_store_max_retries": STORE_RETRIES_MAX,
        "garbage_collector_options.wal_options": {"interval": kept, "min_age": kept, "dry_run": False},
    }
    for name, value in chosen.items():
        native.set(name, json.dumps(value))
    return native
