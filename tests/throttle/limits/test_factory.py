"""Which limiter a URL opens."""

import subprocess
import sys
from pathlib import Path

import pytest

from argosy.base.clock import SystemClock
from argosy.base.errors import Invalid
from argosy.throttle.limits.factory import open_limiter
from tests.throttle.limits.stage import HandClock, request


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("memory://", "MemoryLimiter"),
        ("redis://host:1/0", "RedisLimiter"),
        ("valkeys://host:1/0", "RedisLimiter"),
        ("http://host:1050", "HttpLimiter"),
        ("https://host", "HttpLimiter"),
        ("grpc://host:1051", "GrpcLimiter"),
        ("grpcs://host:1051", "GrpcLimiter"),
    ],
)
async def test_the_scheme_names_the_limiter(url: str, kind: str) -> None:
    opened = await open_limiter(url, clock=SystemClock())
    await opened.close()
    assert type(opened).__name__ == kind


async def test_a_file_is_relative_with_three_slashes_and_absolute_with_four(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: HandClock
) -> None:
    monkeypatch.chdir(tmp_path)
    relative = await open_limiter("sqlite:///limits.db", clock=clock)
    await relative.check([request(3)])
    await relative.close()
    absolute = await open_limiter(f"sqlite:///{tmp_path}/limits.db", clock=clock)
    (answer,) = await absolute.check([request(0)])
    await absolute.close()
    assert answer.remaining == 7


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlit:///x.db", "did you mean sqlite://"),
        ("memory", "unknown limiter 'memory'"),
        ("", "unknown limiter ''"),
        ("sqlite:///", "missing path"),
        ("grpc://", "expected host:port"),
    ],
)
async def test_any_other_url_is_an_error(url: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        await open_limiter(url, clock=SystemClock())


def test_the_package_import_loads_no_extra() -> None:
    wanted = ["redis", "grpc", "google.protobuf", "starlette", "uvicorn", "sqlite3", "prometheus_client"]
    code = f"import sys, argosy.throttle.limits; print(*[m for m in {wanted!r} if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == []


def test_a_missing_extra_is_reported_with_its_remedy() -> None:
    code = """
import asyncio, sys
sys.modules["grpc"] = None
from argosy.base.clock import SystemClock
from argosy.throttle.limits.factory import open_limiter
try:
    asyncio.run(open_limiter("grpc://host:1051", clock=SystemClock()))
except Exception as error:
    print(type(error).__name__, error)
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == (
        "Invalid this limiter needs the package grpcio, which is not installed: run `make setup`\n"
    )
