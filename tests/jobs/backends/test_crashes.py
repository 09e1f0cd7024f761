"""Real processes that are killed, replaced or run out of disk: what was acknowledged is there, all of it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from argosy.base.kv import Batch
from argosy.jobs.backends.shard_store import SlateShardStore
from argosy.jobs.settings import ShardStoreSettings
from tests.jobs.backends import writer_process
from tests.servers.s3 import S3

ACKNOWLEDGED_MIN = 40


@contextmanager
def writing(url: str, *more: str, settings: ShardStoreSettings | None = None) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, writer_process.__file__, url, "a", *more]
    environ = {**os.environ, "WRITER_SETTINGS": json.dumps(asdict(settings or ShardStoreSettings()))}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as process:
        try:
            yield process
        finally:
            process.kill()


def acknowledged(process: subprocess.Popen[str], number: int) -> list[int]:
    """So many numbers that the process says are durable."""
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(number)]
    return [int(line) for line in lines]


def rest_of(process: subprocess.Popen[str]) -> tuple[list[int], list[str]]:
    """The other numbers, and how each of its writers ended."""
    assert process.stdout is not None
    lines = [line.split() for line in process.stdout if line.endswith("\n")]
    return [int(line[0]) for line in lines if line[0] != "end"], [line[1] for line in lines if line[0] == "end"]


async def numbers_in(url: str, kind: str, settings: ShardStoreSettings | None = None) -> set[int]:
    store = await SlateShardStore.open(url, settings)
    rows = await store.shard("a")
    found = {int(key.rpartition(b"/")[2]) async for key, _ in rows.scan(kind.encode() + b"/", kind.encode() + b"0")}
    await rows.close()
    await store.close()
    return found


@pytest.mark.parametrize("fsync", ["always", "never"])
async def test_what_was_acknowledged_before_a_kill_is_there_afterwards(tmp_path: Path, fsync: str) -> None:
    url, settings = f"file://{tmp_path}", ShardStoreSettings(fsync=fsync)
    with writing(url, settings=settings) as process:
        told = acknowledged(process, ACKNOWLEDGED_MIN)
        process.send_signal(signal.SIGKILL)
        told += rest_of(process)[0]
    rows = await numbers_in(url, "row", settings)
    assert set(told) <= rows
    assert rows == await numbers_in(url, "twin", settings), "a batch is there whole or not at all"


async def test_the_same_holds_on_s3(s3_server: S3) -> None:
    url, settings = f"{s3_server.url}/killed", s3_server.settings()
    with writing(url, settings=settings) as process:
        told = acknowledged(process, ACKNOWLEDGED_MIN)
        process.send_signal(signal.SIGKILL)
        told += rest_of(process)[0]
    rows = await numbers_in(url, "row", settings)
    assert set(told) <= rows
    assert rows == await numbers_in(url, "twin", settings)


async def test_a_second_process_fences_the_first_and_finds_all_that_was_acknowledged(tmp_path: Path) -> None:
    url = f"file://{tmp_path}"
    with writing(url) as process:
        told = acknowledged(process, ACKNOWLEDGED_MIN)
        store = await SlateShardStore.open(url)
        rows = await store.shard("a")
        await rows.write(Batch().put(b"mine", b"1"))
        later, ends = rest_of(process)
        assert process.wait() == 0
    assert set(ends) == {"Fenced"}
    assert len(ends) == writer_process.WRITERS
    found = {int(key[4:]) async for key, _ in rows.scan(b"row/", b"row0")}
    assert {*told, *later} <= found, "nothing was acknowledged that the new writer does not see"
    await rows.close()
    await store.close()


async def test_a_disk_that_is_full_acknowledges_nothing_that_is_lost(tmp_path: Path) -> None:
    url = f"file://{tmp_path}"
    with writing(url, "2000") as process:
        told, ends = rest_of(process)
    assert set(ends) == {"Unavailable"}
    assert told, "small batches went in before"
    assert set(told) <= await numbers_in(url, "row")


async def test_an_s3_that_goes_away_acknowledges_nothing_more(tmp_path: Path) -> None:
    with S3() as server:
        settings = server.settings(durable_s_max=1.0)
        with writing(f"{server.url}/gone", settings=settings) as process:
            assert acknowledged(process, ACKNOWLEDGED_MIN)
            server.kill()
            _, ends = rest_of(process)
    assert ends == ["Unavailable"] * writer_process.WRITERS
