"""Real processes that are killed, replaced or run out of disk: every acknowledged write is still there."""

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
def start_writer(url: str, *more: str, settings: ShardStoreSettings | None = None) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, writer_process.__file__, url, "a", *more]
    environ = {**os.environ, "WRITER_SETTINGS": json.dumps(asdict(settings or ShardStoreSettings()))}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_acknowledged(process: subprocess.Popen[str], number: int) -> list[int]:
    """The first `number` numbers that the process reports as durable."""
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(number)]
    return [int(line) for line in lines]


def read_rest(process: subprocess.Popen[str]) -> tuple[list[int], list[str]]:
    """The remaining numbers, and how each of its writers ended."""
    assert process.stdout is not None
    lines = [line.split() for line in process.stdout if line.endswith("\n")]
    return [int(line[0]) for line in lines if line[0] != "end"], [line[1] for line in lines if line[0] == "end"]


async def stored_numbers(url: str, kind: str, settings: ShardStoreSettings | None = None) -> set[int]:
    store = await SlateShardStore.open(url, settings)
    rows = await store.shard("a")
    found = {int(key.rpartition(b"/")[2]) async for key, _ in rows.scan(kind.encode() + b"/", kind.encode() + b"0")}
    await rows.close()
    await store.close()
    return found


@pytest.mark.parametrize("fsync", ["always", "never"])
async def test_acknowledged_writes_survive_a_kill(tmp_path: Path, fsync: str) -> None:
    url, settings = f"file://{tmp_path}", ShardStoreSettings(fsync=fsync)
    with start_writer(url, settings=settings) as process:
        reported = read_acknowledged(process, ACKNOWLEDGED_MIN)
        process.send_signal(signal.SIGKILL)
        reported += read_rest(process)[0]
    rows = await stored_numbers(url, "row", settings)
    assert set(reported) <= rows
    assert rows == await stored_numbers(url, "twin", settings), "a batch is stored whole or not at all"


async def test_acknowledged_writes_survive_a_kill_on_s3(s3_server: S3) -> None:
    url, settings = f"{s3_server.url}/killed", s3_server.settings()
    with start_writer(url, settings=settings) as process:
        reported = read_acknowledged(process, ACKNOWLEDGED_MIN)
        process.send_signal(signal.SIGKILL)
        reported += read_rest(process)[0]
    rows = await stored_numbers(url, "row", settings)
    assert set(reported) <= rows
    assert rows == await stored_numbers(url, "twin", settings)


async def test_a_second_process_fences_the_first_and_finds_acknowledged_writes(tmp_path: Path) -> None:
    url = f"file://{tmp_path}"
    with start_writer(url) as process:
        reported = read_acknowledged(process, ACKNOWLEDGED_MIN)
        store = await SlateShardStore.open(url)
        rows = await store.shard("a")
        await rows.write(Batch().put(b"mine", b"1"))
        later, ends = read_rest(process)
        assert process.wait() == 0
    assert set(ends) == {"Fenced"}
    assert len(ends) == writer_process.WRITERS
    found = {int(key[4:]) async for key, _ in rows.scan(b"row/", b"row0")}
    assert {*reported, *later} <= found, "the new writer sees everything acknowledged"
    await rows.close()
    await store.close()


async def test_a_full_disk_loses_no_acknowledged_write(tmp_path: Path) -> None:
    url = f"file://{tmp_path}"
    with start_writer(url, "2000") as process:
        reported, ends = read_rest(process)
    assert set(ends) == {"Unavailable"}
    assert reported, "small batches fit before"
    assert set(reported) <= await stored_numbers(url, "row")


async def test_an_unreachable_s3_acknowledges_no_further_write(tmp_path: Path) -> None:
    with S3() as server:
        settings = server.settings(durable_s_max=1.0)
        with start_writer(f"{server.url}/gone", settings=settings) as process:
            assert read_acknowledged(process, ACKNOWLEDGED_MIN)
            server.kill()
            _, ends = read_rest(process)
    assert ends == ["Unavailable"] * writer_process.WRITERS
