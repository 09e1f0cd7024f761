"""The query layer from its settings and its file."""

from dataclasses import replace
from pathlib import Path

import pytest

from argosy.base.clock import seeded_random
from argosy.base.errors import Invalid
from argosy.base.settings import load
from argosy.ipni.backends.memory import MemoryIndexStore
from argosy.ipni.keyspace.layout import KeyspaceLayout, start_move
from argosy.ipni.keyspace.runtime import (
    FileMembership,
    IngestStore,
    KeyspaceFrontend,
    KeyspaceNode,
    read_layout,
    write_layout,
)
from argosy.ipni.settings import KeyspaceSettings
from tests.ipni.keyspace.stage import CLOCK, fleet
from tests.ipni.keyspace.test_plan import side

FIRST = KeyspaceLayout(1, side("ab"))


async def test_a_layout_is_followed_as_its_file_changes_and_never_backwards(tmp_path: Path) -> None:
    path = tmp_path / "layout.json"
    write_layout(path, FIRST)
    membership = FileMembership(path)
    second = start_move(FIRST, side("abc").nodes)
    write_layout(path, second)
    assert membership.layout == FIRST
    assert await membership.reload() == second
    write_layout(path, FIRST)
    assert await membership.reload() == second


async def test_an_invalid_file_changes_nothing_and_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "layout.json"
    write_layout(path, FIRST)
    membership = FileMembership(path)
    path.write_text("{")
    assert await membership.reload() == FIRST
    assert str(path) in membership.problem
    write_layout(path, FIRST)
    await membership.reload()
    assert membership.problem == ""
    write_layout(path, KeyspaceLayout(1, side("abc")))
    assert await membership.reload() == FIRST
    assert "increment the version" in membership.problem


def test_a_file_that_is_missing_wrong_or_too_large_stops_the_start(tmp_path: Path) -> None:
    path = tmp_path / "layout.toml"
    with pytest.raises(Invalid, match="cannot be read"):
        read_layout(path)
    path.write_text("version = ")
    with pytest.raises(Invalid, match=r"layout\.toml: the layout file is invalid"):
        read_layout(path)
    path.write_bytes(b" " * ((1 << 20) + 1))
    with pytest.raises(Invalid, match="more than"):
        read_layout(path)
    path.write_text('version = 1\nnodes = { a = "http://a" }\n')
    assert read_layout(path).now.nodes == {"a": "http://a"}


async def test_a_node_stores_its_state_in_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "layout.json"
    write_layout(path, KeyspaceLayout(1, side("a", 1)))
    settings = KeyspaceSettings(layout_file=str(path), node="a", token="t", dir=str(tmp_path / "a"))
    for _ in range(2):
        node = await KeyspaceNode.open(settings, clock=CLOCK)
        assert node.service.state.version == 1
        await node.close()
    with pytest.raises(Invalid, match=r"node b cannot follow layout 1: it is not a member"):
        await KeyspaceNode.open(replace(settings, node="b", dir=str(tmp_path / "b")), clock=CLOCK)


async def test_a_node_does_not_start_with_an_empty_folder_where_it_should_have_data(tmp_path: Path) -> None:
    async with fleet(tmp_path, "rocks") as nodes:
        await nodes.create("ab", 1)
        await nodes.change("abc")
        with pytest.raises(Invalid, match="its store is empty and should have slots already"):
            await KeyspaceNode.open(replace(nodes.settings("a"), dir=str(tmp_path / "another")), clock=CLOCK)


async def test_missing_settings_are_reported() -> None:
    nothing = KeyspaceSettings()
    with pytest.raises(Invalid, match=r"keyspace\.node"):
        await KeyspaceNode.open(nothing, clock=CLOCK)
    with pytest.raises(Invalid, match=r"keyspace\.layout_file"):
        await IngestStore.open(nothing, MemoryIndexStore(), clock=CLOCK, random=seeded_random(1))
    with pytest.raises(Invalid, match=r"keyspace\.indexer_urls"):
        await KeyspaceFrontend.open(nothing, id="front", clock=CLOCK, random=seeded_random(1))
    with pytest.raises(Invalid, match="token must be set"):
        load([KeyspaceSettings], toml_text='[keyspace]\nlayout_file = "layout.json"\n', environ={})
