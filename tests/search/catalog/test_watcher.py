"""The watched catalog: changes by any process are seen soon, and the results of indexing are recorded."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from argosy.base.clock import SystemClock, seeded_random
from argosy.ownership.model import UnitSpec
from argosy.registry import catalog, open_registry
from argosy.registry.ports import RegistryStore
from argosy.search.catalog.watcher import CatalogWatcher, footprint_of


async def open_memory_registry(url: str = "memory://") -> RegistryStore:
    return await open_registry(url, clock=SystemClock(), random=seeded_random(1))


@asynccontextmanager
async def watch(registry: RegistryStore) -> AsyncIterator[CatalogWatcher]:
    client = CatalogWatcher(registry)
    task = asyncio.ensure_future(client.run())
    try:
        await client.wait_synced()
        yield client
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(client: CatalogWatcher, condition: Callable[[], bool]) -> None:
    """Waits for changes until the condition holds."""
    changed = asyncio.Event()
    client.observers.append(changed.set)
    async with asyncio.timeout(20):
        while not condition():
            await changed.wait()
            changed.clear()
    client.observers.remove(changed.set)


async def test_existing_rows_are_known_from_the_start_and_new_ones_soon_after() -> None:
    registry = await open_memory_registry()
    await registry.run(catalog.add("a", "https://example.org/a", replicas=1, max_bids=3))
    async with watch(registry) as client:
        assert await client.units() == [UnitSpec("a", None, 3, 1)]
        await registry.run(catalog.add("b", "https://example.org/b", branches=("main",), is_pinned=True))
        await until(client, lambda: "b" in client.specs)
        assert client.specs["b"].branches == ("main",)
        assert client.specs["b"].is_pinned


async def test_a_removed_repository_disappears() -> None:
    registry = await open_memory_registry()
    await registry.run(catalog.add("a", "https://example.org/a"))
    async with watch(registry) as client:
        before = client.version
        await registry.run(catalog.remove("a"))
        await until(client, lambda: not client.specs)
        assert client.version > before
        assert await client.units() == []


async def test_changes_by_another_process_are_seen(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'registry.db'}"
    ours, theirs = await open_memory_registry(url), await open_memory_registry(url)
    async with watch(ours) as client:
        await theirs.run(catalog.add("a", "https://example.org/a"))
        await until(client, lambda: "a" in client.specs)
        assert client.specs["a"].url == "https://example.org/a"
    await ours.close()
    await theirs.close()


async def test_a_recorded_index_clears_earlier_failures() -> None:
    registry = await open_memory_registry()
    await registry.run(catalog.add("a", "https://example.org/a"))
    async with watch(registry) as client:
        await client.record_failure("a", "needs credentials for example.org")
        await until(client, lambda: client.specs["a"].failures == 1)
        assert client.specs["a"].last_error == "needs credentials for example.org"
        await client.record_indexed("a", commit="c0ffee", footprint_bytes=1000)
        await until(client, lambda: client.specs["a"].failures == 0)
        spec = client.specs["a"]
        assert (spec.last_commit, spec.footprint_bytes, spec.last_error) == ("c0ffee", 1000, None)


async def test_recording_for_a_removed_repository_is_no_error() -> None:
    async with watch(await open_memory_registry()) as client:
        await client.record_indexed("gone", commit="c0ffee", footprint_bytes=1)
        await client.record_failure("gone", "no matter")
        assert not client.specs


async def test_a_size_that_exceeds_every_budget_is_measured_again_on_a_reindex_request() -> None:
    registry = await open_memory_registry()
    await registry.run(catalog.add("a", "https://example.org/a"))
    await registry.run(catalog.record_indexed("a", commit_hash="c0ffee", footprint_bytes=1 << 50))
    async with watch(registry) as client:
        assert [spec.footprint_bytes for spec in await client.units()] == [1 << 50]
        spec = replace(client.specs["a"], reindex_requested_at=(client.specs["a"].last_indexed_at or 0) + 1)
        assert footprint_of(spec) is None


async def test_a_requested_reindex_is_seen() -> None:
    registry = await open_memory_registry()
    await registry.run(catalog.add("a", "https://example.org/a"))
    async with watch(registry) as client:
        await registry.run(catalog.request_reindex("a"))
        await until(client, lambda: client.specs["a"].reindex_requested_at is not None)
        await registry.run(catalog.pin("a", True))
        await until(client, lambda: client.specs["a"].is_pinned)
        assert client.specs["a"].reindex_requested_at is not None


async def test_a_change_carries_its_row_so_that_watching_needs_no_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = await open_memory_registry()
    async with watch(registry) as client:
        read: list[str] = []
        monkeypatch.setattr(catalog, "read", read.append)
        await registry.run(catalog.add("a", "https://example.org/a"))
        await until(client, lambda: "a" in client.specs)
        assert client.specs["a"].url == "https://example.org/a"
        await registry.run(catalog.pin("a", True))
        await until(client, lambda: client.specs["a"].is_pinned)
        assert read == []
