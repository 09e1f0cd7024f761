"""The list of indexers: from settings and a file, reloaded without a restart, and kept if the file is invalid."""

import asyncio
import json
from pathlib import Path

import pytest

from argosy.base.errors import Invalid
from argosy.base.metrics import Metrics
from argosy.gateway.content import telemetry
from argosy.gateway.content.model import Backend, BackendOutcome, MissingBackend, format_missing
from argosy.gateway.content.pool_file import PoolFileWatcher, read_backends
from argosy.gateway.content.service import ContentGateway
from argosy.gateway.settings import ContentSettings


def pool(*numbers: int) -> str:
    entries = [
        {
            "AdminURL": f"http://10.0.0.{n}:3002",
            "FindURL": f"http://10.0.0.{n}:3000",
            "IngestURL": f"http://10.0.0.{n}:1",
        }
        for n in numbers
    ]
    return json.dumps({"IndexerPool": entries, "Replication": 2})


def names(gateway: ContentGateway) -> list[str]:
    return [each.name for each in gateway.backends]


class Clock:
    """A sleep ends when the test lets time pass."""

    def __init__(self) -> None:
        self.slept: asyncio.Queue[float] = asyncio.Queue()
        self.go = asyncio.Semaphore(0)

    def now(self) -> float:
        return 0.0

    def wall(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.slept.put_nowait(seconds)
        await self.go.acquire()


async def test_settings_and_file_together_are_the_list(tmp_path: Path) -> None:
    path = tmp_path / "pool.json"
    path.write_text(pool(1, 2))
    settings = ContentSettings(
        backends=("10.0.0.9:3000", "http://10.0.0.1:3000/"),
        pool_file=str(path),
        dh_backends=("https://dh.example/base",),
    )
    gateway = ContentGateway(read_backends(settings))
    assert names(gateway) == ["10.0.0.9:3000", "10.0.0.1:3000", "10.0.0.2:3000", "dh.example:443/base"]
    assert [each.is_for_second_hashes for each in gateway.backends] == [False, False, False, True]


async def test_the_file_may_be_a_bare_list_or_toml(tmp_path: Path) -> None:
    bare, toml = tmp_path / "list", tmp_path / "pool.toml"
    bare.write_text('["http://a:1", "https://b"]')
    assert [each.name for each in read_backends(ContentSettings(pool_file=str(bare)))] == ["a:1", "b:443"]
    toml.write_text('[[IndexerPool]]\nAdminURL="http://a:1"\nFindURL="http://a:2"\nIngestURL="http://a:3"\n')
    assert [each.name for each in read_backends(ContentSettings(pool_file=str(toml)))] == ["a:2"]


async def test_a_changed_file_is_reloaded_and_an_invalid_one_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "pool.json"
    path.write_text(pool(1))
    metrics, clock = Metrics(), Clock()
    gateway = ContentGateway(metrics=metrics)
    settings = ContentSettings(pool_file=str(path))
    running = asyncio.ensure_future(PoolFileWatcher(gateway, settings, clock).run())
    try:
        for text, expected in ((pool(1, 2), 2), ('{"IndexerPool": [', 2), (pool(1, 2, 3), 3), (None, 3), (pool(2), 1)):
            assert await clock.slept.get() == settings.watch_s
            if text is None:
                path.unlink()
            else:
                path.write_text(text)
            clock.go.release()
            await asyncio.sleep(0)
            clock.slept.put_nowait(await clock.slept.get())  # it sleeps again, so it has looked
            assert len(gateway.backends) == expected, text
            assert metrics.value(telemetry.BACKENDS) == expected
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert names(gateway) == ["10.0.0.2:3000"]


async def test_an_invalid_list_stops_the_start(tmp_path: Path) -> None:
    path = tmp_path / "pool.json"
    for text in ("[1]", "{", '{"Pool": []}', '["ftp://a"]'):
        path.write_text(text)
        with pytest.raises(Invalid):
            read_backends(ContentSettings(pool_file=str(path)))
    with pytest.raises(Invalid, match=r"content\.pool_file"):
        read_backends(ContentSettings(pool_file=str(tmp_path / "none")))
    with pytest.raises(Invalid, match="http://host:port"):
        read_backends(ContentSettings(backends=("http://",)))


async def test_other_settings_may_be_reloaded() -> None:
    gateway = ContentGateway()
    followed = PoolFileWatcher(gateway, ContentSettings(backends=("a:1",)), Clock())
    followed.reload(ContentSettings(backends=("b:1", "a:1")))
    assert names(gateway) == ["b:1", "a:1"]
    with pytest.raises(Invalid):
        followed.reload(ContentSettings(backends=("http://",)))
    assert names(gateway) == ["b:1", "a:1"]


def test_an_indexer_is_named_without_its_password() -> None:
    backend = Backend.at("https://user:secret@[2001:db8::1]/base/")
    assert (backend.name, backend.address) == ("[2001:db8::1]:443/base", ("2001:db8::1", 443, True))
    assert "secret" not in format_missing([MissingBackend(backend.name, BackendOutcome.LATE)])


def test_a_header_names_a_few_and_counts_the_rest() -> None:
    text = format_missing([MissingBackend(f"h{number}:1", BackendOutcome.FAILED) for number in range(20)])
    assert text.startswith("h0:1=failed; h1:1=failed; ")
    assert text.endswith("; and 4 more")


def test_contradictory_settings_are_rejected() -> None:
    assert list(ContentSettings().check()) == []
    assert len(list(ContentSettings(patience_min_s=2.0, breaker_first_s=60.0).check())) == 2
