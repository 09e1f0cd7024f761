"""Clients written for zoekt's server, unchanged, against ours, over a socket."""

import asyncio
import base64
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from starlette.applications import Starlette
from zoekt_mcp.client import ZoektBackendError
from zoekt_mcp.client import ZoektClient as McpClient
from zoektpy import ZoektClient
from zoektpy.client import AsyncZoektClient
from zoektpy.models import ListOptions, ListOptionsField, SearchOptions

from argosy.base.http import EXCEPTION_HANDLERS
from argosy.search.catalog.addresses import repository_id
from tests.gateway.zoekt.fleet_fixture import COMMIT, GREET, HELLO, NOTES, Fleet
from tests.search.fleet.node_fixture import serving

PROGRAMS = Path(sys.executable).parent
SECONDS_MAX = 60


@pytest.fixture
async def address(fleet: Fleet) -> AsyncIterator[tuple[str, int]]:
    web = Starlette(routes=fleet.zoekt(), exception_handlers=EXCEPTION_HANDLERS)
    async with serving(web) as address:
        host, port = address.split(":")
        yield host, int(port)


# -- zoektpy --------------------------------------------------------------------------------------------------


async def test_zoektpy_searches_and_lists(address: tuple[str, int]) -> None:
    def used() -> None:
        with ZoektClient(*address) as client:
            result = client.search("Greet", options=SearchOptions(NumContextLines=1))
            assert result.FileCount == 2
            greet = next(file for file in result.Files if file.FileName == "greet.go")
            assert greet.ChunkMatches is not None
            assert "func Greet" in greet.ChunkMatches[0].get_decoded_content()
            assert client.search("needle", repo_ids=[repository_id(NOTES)]).Files[0].Repository == NOTES
            assert client.search("nowhere_to_be_found").Files == []
            assert client.search_by_language("Greet", "go").FileCount == 2
            assert client.search_by_repo("needle", "notes").FileCount == 2
            assert client.search("haystack", options={"ChunkMatches": False}).Files[0].LineMatches
            listed = client.list_repositories()
            assert sorted(each.Repository.Name for each in listed.Repos) == [HELLO, NOTES]
            listed = client.list_repositories("repo:notes", options=ListOptions(Field=ListOptionsField.REPOS_MAP))
            assert list(listed.ReposMap) == [str(repository_id(NOTES))]

    await asyncio.to_thread(used)


async def test_zoektpy_searches_without_threads(address: tuple[str, int]) -> None:
    async with AsyncZoektClient(*address) as client:
        result = await client.search("needle")
        assert {file.Repository for file in result.Files} == {HELLO, NOTES}
        listed = await client.list_repositories("repo:hello")
        assert listed.Repos[0].Repository.Branches[0].Version == COMMIT


async def run_program(program: str, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        PROGRAMS / program, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(SECONDS_MAX):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()


async def test_the_command_line_of_zoektpy_shows_what_was_found(address: tuple[str, int]) -> None:
    host, port = address
    where = ["--host", host, "--port", str(port), "--no-pager"]
    shown, plain, listed = await asyncio.gather(
        run_program("zoekt-py", *where, "search", "Greet", "--language", "go"),
        run_program("zoekt-py", *where, "search", "needle", "--repo", NOTES, "--no-highlight-matches"),
        run_program("zoekt-py", *where, "list"),
    )
    assert "Found 3 matches in 2 files" in shown
    assert "func Greet(name string) string {" in shown
    assert "Match at line 1, column 3 to line 1, column 9" in plain
    assert "Found 2 repositories" in listed
    assert HELLO in listed


# -- zoekt-mcp ------------------------------------------------------------------------------------------------


async def test_the_client_of_zoekt_mcp_searches_lists_and_reads(address: tuple[str, int]) -> None:
    async with McpClient(f"http://{address[0]}:{address[1]}") as client:
        result = await client.search("Greet", max_doc_display_count=1)
        assert len(result["Files"]) == 1
        assert base64.b64decode(result["Files"][0]["ChunkMatches"][0]["Content"])
        assert len((await client.list_repos())["Repos"]) == 2
        assert await client.get_file(HELLO, "greet.go") == GREET.decode()
        with pytest.raises(ZoektBackendError, match="418"):
            await client.get_file(HELLO, "nowhere.go")
        with pytest.raises(ZoektBackendError, match="400"):
            await client.search("(")


async def test_the_tools_of_zoekt_mcp_work_for_an_agent(address: tuple[str, int]) -> None:
    """Its server is a process that speaks MCP over pipes, as an editor starts it."""
    arguments = ["--zoekt-url", f"http://{address[0]}:{address[1]}"]
    program = StdioServerParameters(command=str(PROGRAMS / "zoekt-mcp"), args=arguments)
    async with (
        asyncio.timeout(SECONDS_MAX),
        stdio_client(program) as (incoming, outgoing),
        ClientSession(incoming, outgoing) as session,
    ):
        await session.initialize()

        async def call_tool(tool: str, **arguments: Any) -> dict[str, Any]:
            result = await session.call_tool(tool, arguments)
            assert not result.isError, result.content
            content: dict[str, Any] = json.loads(result.content[0].text)  # type: ignore[union-attr]
            return content

        found = await call_tool("search_code", query="sym:Greet")
        assert [(file["repo"], file["file"]) for file in found["files"]] == [(HELLO, "greet.go")]
        assert found["files"][0]["matches"][0]["symbols"][0]["name"] == "Greet"
        assert (await call_tool("list_repos"))["count"] == 2
        decode_request = await call_tool("get_file", repo=NOTES, path="today.txt")
        assert decode_request["content"].startswith("a needle in\n")
