"""The embedded limiter with a file: restart, crash, full disk, and a second process."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from argosy.base.errors import Conflict, Invalid, Unavailable
from argosy.base.metrics import Metrics
from argosy.throttle.limits.backends.sqlite import BucketFile, SqliteLimiter
from argosy.throttle.limits.buckets import TokenBucket
from argosy.throttle.limits.table import CHECKS, KEYS
from tests.throttle.limits.stage import NOON_MS, HandClock, figures, leaky, request

# Counts hits endlessly and prints after each batch how many tokens remain.
COUNTING = """
import asyncio, sys
from argosy.base.clock import SystemClock
from argosy.throttle.limits import RateLimitRequest
from argosy.throttle.limits.backends.sqlite import SqliteLimiter

async def main():
    limiter = await SqliteLimiter.open(sys.argv[1], clock=SystemClock())
    while True:
        (answer,) = await limiter.check([RateLimitRequest("n", "k", 1, 1_000_000_000, 3_600_000)])
        print(answer.remaining, flush=True)

asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "limits.db"


async def test_a_restart_loses_nothing(path: Path, clock: HandClock) -> None:
    limiter = await SqliteLimiter.open(path, clock=clock)
    await limiter.check([request(3), leaky(4, key="leaky"), request(10, key="full"), request(1, key="full")])
    clock.ms += 150
    await limiter.check([leaky(1, key="leaky")])
    await limiter.close()

    again = await SqliteLimiter.open(path, clock=clock)
    answers = await again.check([request(0), leaky(0, key="leaky"), request(0, key="full")])
    await again.close()
    assert [answer.remaining for answer in answers] == [7, 6, 0]
    assert [int(answer.status) for answer in answers] == [0, 0, 1]
    assert figures(answers[0])[3] == NOON_MS + 1000


async def test_a_reset_bucket_stays_deleted_after_a_restart(path: Path, clock: HandClock) -> None:
    limiter = await SqliteLimiter.open(path, clock=clock)
    await limiter.check([request(3), request(1, behavior=8)])
    await limiter.close()
    again = await SqliteLimiter.open(path, clock=clock)
    (answer,) = await again.check([request(1)])
    await again.close()
    assert answer.remaining == 9


async def test_buckets_that_expired_meanwhile_are_not_loaded(path: Path, clock: HandClock) -> None:
    limiter = await SqliteLimiter.open(path, clock=clock)
    await limiter.check([request(3, key="old"), request(3, duration=5000)])
    await limiter.close()
    clock.ms += 2000
    metrics = Metrics()
    again = await SqliteLimiter.open(path, clock=clock, metrics=metrics)
    await again.check([request(1, duration=5000)])
    assert metrics.value(KEYS) == 1
    await again.close()
    file = BucketFile(path)
    assert [key for key, _ in file.rows()] == ["n_k"]
    file.close()


async def test_the_buckets_used_last_survive_a_smaller_bound(path: Path, clock: HandClock) -> None:
    limiter = await SqliteLimiter.open(path, clock=clock)
    for key in ("a", "b", "c", "a"):
        await limiter.check([request(1, key=key)])
    await limiter.close()
    smaller = await SqliteLimiter.open(path, clock=clock, keys_max=2)
    answers = await smaller.check([request(0, key="c"), request(0, key="a")])
    await smaller.close()
    assert [answer.remaining for answer in answers] == [9, 8]


def test_a_killed_process_loses_no_answered_request(path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", COUNTING, str(path)], stdout=subprocess.PIPE) as counting:
        assert counting.stdout is not None
        printed = [int(counting.stdout.readline()) for _ in range(50)]
        os.kill(counting.pid, signal.SIGKILL)
        printed += [int(line) for line in counting.stdout.read().split(b"\n")[:-1]]
    file = BucketFile(path)
    ((_, bucket),) = file.rows()
    file.close()
    assert isinstance(bucket, TokenBucket)
    assert printed[-1] - 1 <= bucket.remaining <= printed[-1]  # one more hit may have been written and not printed


async def test_callers_at_once_share_a_write(path: Path, clock: HandClock, monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[int] = []
    save = BucketFile.save

    def counted(file: BucketFile, changes: dict[str, object]) -> None:
        saved.append(len(changes))
        save(file, changes)  # type: ignore[arg-type]

    monkeypatch.setattr(BucketFile, "save", counted)
    limiter = await SqliteLimiter.open(path, clock=clock)
    await asyncio.gather(*(limiter.check([request(1, key=str(number))]) for number in range(50)))
    await limiter.close()
    assert saved == [50]


async def test_a_second_process_is_refused_the_file(path: Path, clock: HandClock) -> None:
    limiter = await SqliteLimiter.open(path, clock=clock)
    with pytest.raises(Conflict, match="is in use by another process; use one file per process"):
        await SqliteLimiter.open(path, clock=clock, lock_wait_s=0.05)
    await limiter.close()
    again = await SqliteLimiter.open(path, clock=clock)
    assert (await again.check([request(1)]))[0].remaining == 9
    await again.close()


async def test_a_failed_write_is_reported_and_retried(
    path: Path, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise Unavailable("cannot write limits.db: disk full")

    metrics = Metrics()
    limiter = await SqliteLimiter.open(path, clock=clock, metrics=metrics)
    with monkeypatch.context() as patched:
        patched.setattr(BucketFile, "save", full)
        with pytest.raises(Unavailable, match="disk full"):
            await limiter.check([request(3)])
        with pytest.raises(Unavailable, match="disk full"):
            await limiter.ping()
        assert metrics.value(CHECKS, outcome="under") == 0
    await limiter.ping()
    await limiter.close()
    again = await SqliteLimiter.open(path, clock=clock)
    assert (await again.check([request(0)]))[0].remaining == 7
    await again.close()


async def test_a_real_full_disk_is_unavailable(path: Path, clock: HandClock) -> None:
    limiter = await SqliteLimiter.open(path, clock=clock)
    limiter._file._connection.execute("PRAGMA max_page_count = 3")
    with pytest.raises(Unavailable, match=r"cannot write .*limits\.db: .*full"):
        await limiter.check([request(1, key=f"{number}" + "k" * 2000) for number in range(50)])
    limiter._file._connection.execute("PRAGMA max_page_count = 100000")
    assert (await limiter.check([request(1, key="more")]))[0].remaining == 9
    await limiter.close()


async def test_a_cancelled_caller_does_not_cancel_the_write_of_others(path: Path, clock: HandClock) -> None:
    limiter = await SqliteLimiter.open(path, clock=clock)
    calls = [asyncio.create_task(limiter.check([request(1, key=str(number))])) for number in range(3)]
    await asyncio.sleep(0)
    calls[0].cancel()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    await limiter.close()
    assert isinstance(answers[0], asyncio.CancelledError)
    file = BucketFile(path)
    assert sorted(key for key, _ in file.rows()) == ["n_0", "n_1", "n_2"]
    file.close()


async def test_closing_twice_is_harmless_and_a_closed_limiter_raises(path: Path, clock: HandClock) -> None:
    limiter = await SqliteLimiter.open(path, clock=clock)
    await limiter.close()
    await limiter.close()
    with pytest.raises(Unavailable, match="is closed; open a new one"):
        await limiter.check([request(1)])


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_bytes(b"this is no database, whatever its name may say" * 100)
    with pytest.raises(Invalid, match="is damaged or not a SQLite file"):
        BucketFile(path)


async def test_a_database_of_another_program_is_refused(path: Path, clock: HandClock) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE theirs (x)")
    other.close()
    with pytest.raises(Invalid, match="the database of another program"):
        await SqliteLimiter.open(path, clock=clock)


async def test_a_file_of_another_version_is_refused(path: Path, clock: HandClock) -> None:
    await (await SqliteLimiter.open(path, clock=clock)).close()
    with sqlite3.connect(path) as newer:
        newer.execute("PRAGMA user_version = 2")
    newer.close()
    with pytest.raises(Invalid, match="has format version 2, expected 1"):
        await SqliteLimiter.open(path, clock=clock)


async def test_a_damaged_row_is_refused(path: Path, clock: HandClock) -> None:
    await (await SqliteLimiter.open(path, clock=clock)).close()
    with sqlite3.connect(path) as other:
        other.execute("INSERT INTO bucket VALUES ('n_k', 'nonsense')")
    other.close()
    with pytest.raises(Invalid, match="invalid bucket 'nonsense'"):
        await SqliteLimiter.open(path, clock=clock)
    with sqlite3.connect(path) as other:  # the lock was released
        other.execute("DELETE FROM bucket")
    other.close()
    await (await SqliteLimiter.open(path, clock=clock)).close()


async def test_a_missing_folder_is_reported(tmp_path: Path, clock: HandClock) -> None:
    with pytest.raises(Unavailable, match="check that its directory exists"):
        await SqliteLimiter.open(tmp_path / "nowhere" / "limits.db", clock=clock)
