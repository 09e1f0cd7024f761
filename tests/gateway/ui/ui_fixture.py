"""A small fleet behind the pages: real indexes and nodes, the real gateway, and a server for a browser.

One repository is ordinary, one is as hostile as file names and contents can be.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import httpx
import uvicorn
from starlette.applications import Starlette

from argosy.base.http import EXCEPTION_HANDLERS, exception_handlers
from argosy.gateway.ui import WebUi
from argosy.gateway.zoekt.http import zoekt_routes
from argosy.search.backends.git_metadata import url_templates
from argosy.search.backends.memory import MemoryFile, MemorySource
from argosy.search.index.build import build
from argosy.search.index.index import Index
from argosy.search.model import Branch, Repository
from argosy.search.skip_policy import Policy
from tests.gateway.zoekt.fleet_fixture import Fleet

HARBOUR = "github.com/argosy/harbour"
WILD = "wild/-/<i>repo</i>"
COMMIT = "c0ffee" + "0" * 34
OLDER = "decaf0" + "0" * 34
HOSTILE_NAME = b'<img src=x onerror="alert(1)">&amp;\xff ?#%41.py'
HOSTILE_TEXT = b'</code></div><script>alert("needle")</script>\nx = "\xe2\x80\xae needle \xff"\r\n'
BERTHS = b'''"""Berths: who lies where, and until when."""

from dataclasses import dataclass

LENGTH_MAX = 400        # metres


@dataclass(frozen=True)
class Ship:
    """A ship that wants a berth."""

    name: str
    length: float

    def fits(self, berth: "Berth") -> bool:
        # A needle's breadth is left at both ends.
        return self.length + 2 <= berth.length


class Berth:
    def __init__(self, length: float) -> None:
        self.length = min(length, LENGTH_MAX)
        self.ship: Ship | None = None

    def moor(self, ship: Ship) -> None:
        if not ship.fits(self):
            raise ValueError(f"{ship.name} is too long: needle {ship.length} > {self.length}")
        self.ship = ship
'''
CRANE = b"""package crane

// Lift raises a load; the needle shows its weight.
func Lift(load int) (int, error) {
\tif load > 40 {
\t\treturn 0, errTooHeavy // needle
\t}
\treturn load * 2, nil
}
"""
MANY = b"".join(b"needle %d\n\n\n" % number for number in range(60))
LONG = b"start " + b"x" * 5_000 + b" needle " + b"y" * 5_000 + b"\n"


def harbour() -> Index:
    templates = url_templates("github", "https://github.com/argosy/harbour")
    repository = Repository(
        HARBOUR,
        branches=(Branch("main", COMMIT), Branch("release/1.0", OLDER)),
        url="https://github.com/argosy/harbour",
        file_url_template=templates.file,
        commit_url_template=templates.commit,
        line_fragment_template=templates.line,
    )
    both = 0b11
    files = [
        MemoryFile(b"README.md", b"# Harbour\n\nA needle in a haystack of ropes.\n", branches=both),
        MemoryFile(b"cmd/crane/crane.go", CRANE, branches=both),
        MemoryFile(b"src/harbour/berths.py", BERTHS, branches=0b01),
        MemoryFile(b"src/harbour/berths.py", BERTHS.replace(b"400", b"300"), branches=0b10),
        MemoryFile(b"src/harbour/many.txt", MANY, branches=both),
        MemoryFile(b"src/harbour/empty.py", b"", branches=both),
        MemoryFile(b"docs/old.txt", b"only here: needle\n", branches=0b10),
    ]
    return build(MemorySource(repository, files), Policy())


def wild() -> Index:
    files = [
        MemoryFile(HOSTILE_NAME, HOSTILE_TEXT),
        MemoryFile(b"long.txt", LONG),
        MemoryFile(b"logo.png", b"\x89PNG\0\1"),
        MemoryFile(b"two\nlines.txt", b"needle\n"),
        MemoryFile(b"deep/er/than/that.js", b"const needle = 1;\n"),
    ]
    repository = Repository(
        WILD, branches=(Branch("HEAD", COMMIT),), url="javascript:alert(1)", file_url_template="javascript:x"
    )
    return build(MemorySource(repository, files), Policy())


def fleet_of(*more: Index, warming: Iterable[str] = ()) -> Fleet:
    return Fleet({"n1:6071": [harbour(), *more], "n2:6071": [wild()]}, warming=warming)


@asynccontextmanager
async def browse(fleet: Fleet) -> AsyncIterator[httpx.AsyncClient]:
    async with web_of(WebUi(fleet.gateway)) as client:
        yield client


@asynccontextmanager
async def web_of(site: WebUi) -> AsyncIterator[httpx.AsyncClient]:
    """A client straight into the pages; what they raise, the test sees."""
    web = Starlette(routes=site.routes(), exception_handlers=exception_handlers(site.error_page))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=web), base_url="http://fleet") as client:
        yield client


@asynccontextmanager
async def serve_ui(fleet: Fleet) -> AsyncIterator[str]:
    """The pages and what they link to, on a port of this machine."""
    site = WebUi(fleet.gateway)
    zoekt = zoekt_routes(
        fleet.gateway, names=lambda: fleet.specs, search_page=site.search_page, print_page=site.print_page
    )
    web = Starlette(routes=[*zoekt, *site.routes()], exception_handlers=EXCEPTION_HANDLERS)
    server = uvicorn.Server(uvicorn.Config(web, host="127.0.0.1", port=0, log_level="error", lifespan="off"))
    serving = asyncio.create_task(server.serve())
    try:
        while not server.started:
            assert not serving.done(), "the server did not start"
            await asyncio.sleep(0)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        site.close()
        server.should_exit = True
        await serving
