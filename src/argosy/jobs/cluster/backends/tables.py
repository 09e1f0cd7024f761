"""Shards in SlateDB, with what an operator may ask about their tables."""

from typing import Any

from slatedb.uniffi import AdminBuilder, CompactionSpec, SourceId  # type: ignore[import-untyped]

from argosy.base.errors import Conflict, NotFound
from argosy.jobs.backends.shard_store import ShardStore
from argosy.jobs.broker import SortedRun, StorageInfo


class SlateShardStore(ShardStore):
    """Implements the cluster's `ShardStore`."""

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
