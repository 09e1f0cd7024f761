"""The programs on the throttle's page are complete: each runs unchanged, with an application and a real server."""

import ast
import re
from collections.abc import Iterator
from inspect import CO_COROUTINE
from types import FunctionType
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware

from argosy.throttle import FairThrottle
from argosy.throttle.middleware import Extractor, FairAdmission, LimitAdmission, by_address, by_header, by_path
from argosy.throttle.middleware.extractors import AsgiRequest
from tests.architecture.tree import ROOT
from tests.servers.valkey import Valkey

PAGE = (ROOT / "docs" / "throttle.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def server() -> Iterator[Valkey]:
    with Valkey() as server:
        yield server


async def run(program: str, server: Valkey) -> dict[str, Any]:
    """Its names after it ran. The page's reader has an application, and a way to serve it."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(program.replace("redis://cache:6379", server.url), "docs/throttle.md", "exec", flags=flags)
    names: dict[str, Any] = {"app": Starlette(), "served": [], "serve": lambda app: names["served"].append(app)}
    answer = FunctionType(code, names)()
    if code.co_flags & CO_COROUTINE:
        await answer
    return names


def added(names: dict[str, Any]) -> list[Middleware]:
    found: list[Middleware] = names["app"].user_middleware
    return found


async def test_three_lines_are_enough_for_a_fair_throttle(server: Valkey) -> None:
    assert [each.cls for each in added(await run(PROGRAMS[0], server))] == [FairAdmission]


async def test_sharing_serves_with_the_state_of_all(server: Valkey) -> None:
    names = await run(PROGRAMS[1], server)
    assert names["served"] == [names["app"]]
    assert isinstance(names["throttle"], FairThrottle)


async def test_a_quota_is_counted_on_the_server(server: Valkey) -> None:
    names = await run(PROGRAMS[2], server)
    try:
        assert [each.cls for each in added(names)] == [LimitAdmission]
        await names["limiter"].ping()
    finally:
        await names["limiter"].close()


def test_every_program_of_the_page_is_run_here() -> None:
    assert len(PROGRAMS) == 3


@pytest.mark.parametrize(
    ("extractor", "host"),
    [
        (by_address(), "192.0.2.7"),
        (by_address(), "2001:db8::7"),
        (by_header("x-client"), "192.0.2.7"),
        (by_path(), "192.0.2.7"),
    ],
)
def test_the_ids_of_clients_are_spelled_on_the_page(extractor: Extractor, host: str) -> None:
    scope = {"type": "http", "path": "/acme/users", "client": (host, 1), "headers": [(b"x-client", b"ada")]}
    assert f"`{extractor(AsgiRequest(scope))!s}`" in PAGE
