"""The catalog of a working set is what was given; a failing start does not change it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from argosy.app.served_catalog import SET_ASIDE, add_to_catalog, forget_set_aside, set_catalog, undo
from argosy.app.stores import connect_registry
from argosy.base.errors import Conflict
from argosy.registry import catalog
from argosy.registry.ports import RegistryStore
from argosy.registry.settings import RegistrySettings
from argosy.search.catalog.addresses import Address, address_of
from argosy.search.catalog.import_list import read_list


def addresses(*texts: str) -> list[Address]:
    return [address_of(text, allow_local=True) for text in texts]


@asynccontextmanager
async def open_catalog(folder: Path) -> AsyncIterator[RegistryStore]:
    registry = await connect_registry(RegistrySettings(url=f"sqlite:///{folder}/registry.db"))
    try:
        yield registry
    finally:
        await registry.close()


async def names(registry: RegistryStore) -> dict[str, str]:
    return {row.repo_id: row.url for row in await registry.run(catalog.everything())}


async def test_repositories_not_given_are_set_aside_until_resume(tmp_path: Path) -> None:
    async with open_catalog(tmp_path) as registry:
        await set_catalog(registry, addresses("/a/tool"), None, tmp_path, resume=False)
        await registry.run(catalog.add("tool-too", "/b/tool", branches=("main",), is_pinned=True, replicas=1))
        change = await set_catalog(registry, addresses("/a/tool"), None, tmp_path, resume=False)
        assert change.set_aside == ("tool-too",)
        assert await names(registry) == {"tool": "/a/tool"}
        [listed] = read_list((tmp_path / SET_ASIDE).read_text())
        assert (listed.name, listed.url, listed.replicas) == ("tool-too", "/b/tool", 1)
        # Further starts keep it too.
        await set_catalog(registry, addresses("/a/tool"), None, tmp_path, resume=False)
        await set_catalog(registry, addresses("/a/tool"), None, tmp_path, resume=True)
        assert await names(registry) == {"tool": "/a/tool", "tool-too": "/b/tool"}
        row = await registry.run(catalog.read("tool-too"))
        assert row is not None
        assert (row.branches, row.is_pinned, row.replicas) == (("main",), True, 1)
        forget_set_aside(tmp_path)
        assert not (tmp_path / SET_ASIDE).exists()


async def test_a_failing_start_with_resume_loses_nothing_set_aside(tmp_path: Path) -> None:
    async with open_catalog(tmp_path) as registry:
        await set_catalog(registry, addresses("/a/tool"), None, tmp_path, resume=False)
        await registry.run(catalog.add("other", "/b/other"))
        await set_catalog(registry, addresses("/a/tool"), None, tmp_path, resume=False)
        for _ in range(2):
            change = await set_catalog(registry, addresses("/a/tool"), None, tmp_path, resume=True)
            assert await names(registry) == {"tool": "/a/tool", "other": "/b/other"}
            await undo(registry, change)
            assert await names(registry) == {"tool": "/a/tool"}


async def test_a_name_is_changed_and_a_change_is_undone(tmp_path: Path) -> None:
    async with open_catalog(tmp_path) as registry:
        await set_catalog(registry, addresses("/a/tool"), None, tmp_path, resume=False)
        change = await set_catalog(registry, addresses("/a/tool"), "ship", tmp_path, resume=False)
        assert await names(registry) == {"ship": "/a/tool"}
        await undo(registry, change)
        assert await names(registry) == {"tool": "/a/tool"}


async def test_a_catalog_of_the_settings_keeps_additions_of_others(tmp_path: Path) -> None:
    async with open_catalog(tmp_path) as registry:
        await registry.run(catalog.add("tool", "/others/tool"))
        change = await add_to_catalog(registry, addresses("/a/tool", "/others/tool"), None)
        assert await names(registry) == {"tool": "/others/tool", "a/tool": "/a/tool"}
        await undo(registry, change)
        assert await names(registry) == {"tool": "/others/tool"}
        with pytest.raises(Conflict, match="already in the catalog as 'tool'"):
            await add_to_catalog(registry, addresses("/others/tool"), "ship")
        with pytest.raises(Conflict, match="name 'tool' is taken by another repository"):
            await add_to_catalog(registry, addresses("/a/tool"), "tool")
        assert await names(registry) == {"tool": "/others/tool"}
