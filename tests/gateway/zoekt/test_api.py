"""`/api/search` and `/api/list`, replies field by field."""

import base64
import json
from typing import Any

import httpx
import pytest

from argosy.search.catalog.addresses import repository_id
from tests.gateway.zoekt.fleet_fixture import COMMIT, GREET, HELLO, NOTES, Fleet, client_of, hello

STATS = {
    "ContentBytesLoaded", "IndexBytesLoaded", "Crashes", "Duration", "FileCount", "ShardFilesConsidered",
    "FilesConsidered", "FilesLoaded", "FilesSkipped", "ShardsScanned", "ShardsSkipped", "ShardsSkippedFilter",
    "MatchCount", "NgramMatches", "NgramLookups", "Wait", "MatchTreeConstruction", "MatchTreeSearch",
    "RegexpsConsidered", "FlushReason",
}  # fmt: skip
OURS = {"Complete", "LimitsHit", "Missing"}


async def searched(client: httpx.AsyncClient, query: str, **opts: Any) -> dict[str, Any]:
    response = await client.post("/api/search", json={"Q": query, "Opts": opts})
    assert response.status_code == 200, response.text
    result: dict[str, Any] = response.json()["Result"]
    return result


def plain(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


async def test_a_reply_in_chunks_has_every_field_of_zoekts(client: httpx.AsyncClient) -> None:
    result = await searched(client, "Greet lang:go file:greet", ChunkMatches=True)
    assert result.keys() == STATS | OURS | {"Files", "RepoURLs", "LineFragments"}
    [file] = result["Files"]
    chunks = file.pop("ChunkMatches")
    assert file.pop("Score") > 0
    assert len(plain(file.pop("Checksum"))) == 8
    assert file == {
        "FileName": "greet.go",
        "Repository": HELLO,
        "Version": COMMIT,
        "Language": "Go",
        "Branches": ["main"],
        "RepositoryPriority": 7.0,
        "RepositoryID": repository_id(HELLO),
    }
    assert all(chunk.pop("Score") >= 0 for chunk in chunks)
    [first] = chunks
    assert first == {
        "DebugScore": "",
        "Content": base64.b64encode(GREET[15 : GREET.index(b"\treturn")]).decode(),
        "Ranges": [
            {
                "Start": {"ByteOffset": 18, "LineNumber": 3, "Column": 4},
                "End": {"ByteOffset": 23, "LineNumber": 3, "Column": 9},
            },
            {
                "Start": {"ByteOffset": 52, "LineNumber": 4, "Column": 6},
                "End": {"ByteOffset": 57, "LineNumber": 4, "Column": 11},
            },
        ],
        "SymbolInfo": None,
        "FileName": False,
        "ContentStart": {"ByteOffset": 15, "LineNumber": 3, "Column": 1},
        "BestLineMatch": 4,
    }
    assert result["RepoURLs"] == {HELLO: '{{URLJoinPath "https://github.com/o/hello" "blob" .Version .Path}}'}
    assert result["LineFragments"] == {HELLO: "#L{{.LineNumber}}"}
    assert (result["FileCount"], result["MatchCount"], result["Crashes"]) == (1, 2, 0)
    assert (result["Complete"], result["Missing"], result["FlushReason"]) == (True, [], 0)
    assert all(isinstance(result[name], int) for name in STATS)


async def test_lines_end_with_their_newline_where_they_have_one(client: httpx.AsyncClient) -> None:
    result = await searched(client, "needle repo:notes file:today")
    [file] = result["Files"]
    assert "ChunkMatches" not in file
    first, last = sorted(file["LineMatches"], key=lambda line: line["LineNumber"])
    assert first.pop("Score") >= 0
    assert first == {
        "Line": base64.b64encode(b"a needle in\n").decode(),
        "LineStart": 0,
        "LineEnd": 12,
        "LineNumber": 1,
        "Before": None,
        "After": None,
        "FileName": False,
        "DebugScore": "",
        "LineFragments": [{"SymbolInfo": None, "LineOffset": 2, "Offset": 2, "MatchLength": 6}],
    }
    assert plain(last["Line"]) == b"and no newline: needle"
    assert last["LineEnd"] == last["LineStart"] + len(plain(last["Line"]))


async def test_context_stands_around_lines_in_base64(client: httpx.AsyncClient) -> None:
    result = await searched(client, "haystack repo:notes", NumContextLines=1)
    [line] = result["Files"][0]["LineMatches"]
    assert plain(line["Before"]) == b"a needle in\n"
    assert plain(line["After"]).startswith(b"and no newline: needle")


async def test_a_match_in_a_file_name_is_marked(client: httpx.AsyncClient) -> None:
    [file] = (await searched(client, "file:cmd/main", ChunkMatches=True))["Files"]
    [chunk] = file["ChunkMatches"]
    assert (chunk["FileName"], plain(chunk["Content"])) == (True, b"cmd/main.go")
    assert chunk["ContentStart"] == {"ByteOffset": 0, "LineNumber": 1, "Column": 1}
    [file] = (await searched(client, "file:cmd/main"))["Files"]
    [line] = file["LineMatches"]
    assert (line["FileName"], line["LineNumber"], plain(line["Line"])) == (True, 0, b"cmd/main.go")


async def test_columns_count_characters_and_offsets_bytes(client: httpx.AsyncClient) -> None:
    [file] = (await searched(client, "name repo:hello case:yes llo.*needle", ChunkMatches=True))["Files"]
    ranges = [each for chunk in file["ChunkMatches"] for each in chunk["Ranges"]]
    found = next(each for each in ranges if each["Start"]["LineNumber"] == 5)
    line = GREET.splitlines(keepends=True)[4]
    assert found["Start"]["ByteOffset"] == GREET.index(b"llo, ")
    assert found["Start"]["Column"] == line.decode().index("llo, ") + 1


async def test_a_symbol_is_returned_only_for_a_symbol_query(client: httpx.AsyncClient) -> None:
    [file] = (await searched(client, "sym:Greet", ChunkMatches=True))["Files"]
    assert file["ChunkMatches"][0]["SymbolInfo"] == [
        {"Sym": "Greet", "Kind": "function", "Parent": "", "ParentKind": ""}
    ]
    [file] = (await searched(client, "sym:Greet"))["Files"]
    assert file["LineMatches"][0]["LineFragments"][0]["SymbolInfo"]["Sym"] == "Greet"


async def test_the_whole_file_is_returned_when_requested(client: httpx.AsyncClient) -> None:
    [file] = (await searched(client, "file:greet", Whole=True))["Files"]
    assert plain(file["Content"]) == GREET
    [file] = (await searched(client, "file:greet"))["Files"]
    assert "Content" not in file


async def test_no_files_are_a_list_and_an_estimate_has_none(client: httpx.AsyncClient) -> None:
    result = await searched(client, "nowhere_to_be_found")
    assert (result["Files"], result["RepoURLs"], result["Complete"]) == ([], {}, True)
    result = await searched(client, "needle", EstimateDocCount=True)
    assert result["Files"] == []
    assert result["ShardFilesConsidered"] > 0


async def test_display_counts_cut_after_ranking_and_are_reported(client: httpx.AsyncClient) -> None:
    result = await searched(client, "needle", MaxDocDisplayCount=1)
    assert len(result["Files"]) == 1
    assert result["FileCount"] == 3
    assert result["Complete"] is False
    assert result["LimitsHit"] == ["files_max"]
    assert result["Crashes"] == 0


async def test_a_search_is_restricted_to_repositories_by_number(client: httpx.AsyncClient) -> None:
    async def repositories(*ids: int) -> set[str]:
        response = await client.post("/api/search", json={"Q": "needle", "RepoIDs": ids})
        return {file["Repository"] for file in response.json()["Result"]["Files"]}

    assert await repositories(repository_id(NOTES)) == {NOTES}
    assert await repositories(repository_id(NOTES), repository_id(HELLO), 1) == {NOTES, HELLO}
    assert await repositories() == set()
    assert await repositories(1) == set()


async def test_text_is_escaped_as_go_does_and_ends_with_a_newline(client: httpx.AsyncClient) -> None:
    response = await client.post("/api/search", json={"Q": "(("})
    assert response.status_code == 400
    response = await client.post("/api/search", json={"Q": "<&>)"})
    assert (response.status_code, response.content[-1:]) == (400, b"\n")
    assert b"<" not in response.content
    assert response.headers["content-type"] == "application/json"
    assert response.json().keys() == {"Error"}


@pytest.mark.parametrize("path", ["/api/search", "/api/list"])
async def test_other_methods_are_rejected_with_zoekts_message(client: httpx.AsyncClient, path: str) -> None:
    for method in ("GET", "PUT", "DELETE", "OPTIONS"):
        response = await client.request(method, path)
        assert (response.status_code, response.text) == (405, '{"Error":"Only POST is supported"}\n')


async def test_a_search_needs_a_query(client: httpx.AsyncClient) -> None:
    for body in ({}, {"Q": ""}, {"Q": None}):
        response = await client.post("/api/search", json=body)
        assert response.status_code == 400
        assert "query" in response.json()["Error"]


# -- incomplete answers ---------------------------------------------------------------------------------------


async def test_an_incomplete_result_is_marked_in_zoekts_format_and_in_ours() -> None:
    fleet = Fleet({"n1:1": [hello()]}, warming=["late"])
    async with client_of(fleet.zoekt()) as client:
        result = await searched(client, "needle")
        assert result["Crashes"] == 1
        assert result["Complete"] is False
        assert [(each["Repository"], each["Why"]) for each in result["Missing"]] == [("late", "warming")]
        assert {file["Repository"] for file in result["Files"]} == {HELLO}
        listed = (await client.post("/api/list", json={})).json()["List"]
        assert (listed["Crashes"], listed["Complete"], listed["Missing"][0]["Repository"]) == (1, False, "late")
    fleet.close()


async def test_an_unavailable_fleet_is_503_with_a_retry_time() -> None:
    fleet = Fleet({}, warming=["late", "later"])
    async with client_of(fleet.zoekt()) as client:
        response = await client.post("/api/search", json={"Q": "needle"})
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) >= 1
        assert "late" in response.json()["Error"]
        page = await client.get("/search", params={"q": "needle", "format": "json"})
        assert (page.status_code, "retry-after" in page.headers) == (503, True)


# -- lists ----------------------------------------------------------------------------------------------------


async def listed(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    response = await client.post("/api/list", json=body)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()["List"]
    return found


async def test_a_list_has_every_field_of_zoekts(client: httpx.AsyncClient) -> None:
    found = await listed(client, Q="repo:hello")
    assert found.keys() == {"Repos", "ReposMap", "Crashes", "Stats", "Complete", "Missing"}
    [entry] = found["Repos"]
    assert entry.keys() == {"Repository", "IndexMetadata", "Stats"}
    assert entry["Repository"] == {
        "TenantID": 0,
        "ID": repository_id(HELLO),
        "Name": HELLO,
        "URL": "https://github.com/o/hello",
        "Metadata": {"team": "core"},
        "Source": "https://github.com/o/hello.git",
        "Branches": [{"Name": "main", "Version": COMMIT}],
        "SubRepoMap": {},
        "CommitURLTemplate": '{{URLJoinPath "https://github.com/o/hello" "commit" .Version}}',
        "FileURLTemplate": '{{URLJoinPath "https://github.com/o/hello" "blob" .Version .Path}}',
        "LineFragmentTemplate": "#L{{.LineNumber}}",
        "RawConfig": {"public": "1", "fork": "0"},
        "Rank": 7,
        "IndexOptions": "",
        "HasSymbols": True,
        "Tombstone": False,
        "LatestCommitDate": "2023-11-14T22:13:20.500000Z",
    }
    metadata = entry["IndexMetadata"]
    assert metadata.keys() == {
        "IndexFormatVersion",
        "IndexFeatureVersion",
        "IndexMinReaderVersion",
        "IndexTime",
        "PlainASCII",
        "LanguageMap",
        "ZoektVersion",
        "ID",
    }
    assert (metadata["IndexTime"], metadata["LanguageMap"]) == ("2025-06-15T15:06:40Z", {"Go": 2})
    assert (
        entry["Stats"].keys()
        == found["Stats"].keys()
        == {
            "Repos",
            "Shards",
            "Documents",
            "IndexBytes",
            "ContentBytes",
            "NewLinesCount",
            "DefaultBranchNewLinesCount",
            "OtherBranchesNewLinesCount",
        }
    )
    assert (entry["Stats"]["Repos"], found["Stats"]["Repos"], found["Stats"]["Documents"]) == (0, 1, 2)
    assert entry["Stats"]["NewLinesCount"] == 11


async def test_a_list_takes_any_query_or_none(client: httpx.AsyncClient) -> None:
    async def names(**body: Any) -> list[str]:
        return sorted(each["Repository"]["Name"] for each in (await listed(client, **body))["Repos"])

    assert await names() == await names(Q="") == await names(Q="repo:.") == [HELLO, NOTES]
    assert await names(Q="haystack") == [NOTES]
    assert await names(Q="nowhere_to_be_found") == []
    response = await client.post("/api/list", content=b"")
    assert len(response.json()["List"]["Repos"]) == 2


async def test_the_map_has_repositories_by_number(client: httpx.AsyncClient) -> None:
    found = await listed(client, Q="", Opts={"Field": 2})
    assert found["Repos"] == []
    assert found["ReposMap"][str(repository_id(HELLO))] == {
        "HasSymbols": True,
        "Branches": [{"Name": "main", "Version": COMMIT}],
        "IndexTimeUnix": 1_750_000_000,
    }
    response = await client.post("/api/list", json={"Opts": {"Field": 1}})
    assert response.status_code == 400
    assert "Field" in response.json()["Error"]


# -- requests as other programs send them ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        # neogrok: everything in lower case, durations in nanoseconds.
        {"q": "needle", "opts": {"chunkmatches": True, "maxdocdisplaycount": 50, "maxmatchdisplaycount": 500,
                                 "numcontextlines": 1, "maxwalltime": 30_000_000_000}},
        # sourcebot: a negative limit is none.
        {"q": "needle", "opts": {"NumContextLines": 0, "ChunkMatches": True, "MaxMatchDisplayCount": 10_000,
                                 "Whole": False, "TotalMaxMatchCount": 100_000, "ShardMaxMatchCount": -1,
                                 "MaxWallTime": 0}},
        # old clients: options that no longer exist.
        {"Q": "needle", "Opts": {"UseDocumentRanks": True, "DocumentRanksWeight": 4500, "ShardMaxImportantMatch": 3,
                                 "MaxMatchCountPerFile": None, "ChunkMatches": True, "SpanContext": {"A-b": "c"}}},
    ],
)  # fmt: skip
async def test_requests_of_other_clients_are_understood(client: httpx.AsyncClient, body: dict[str, Any]) -> None:
    response = await client.post("/api/search", content=json.dumps(body), headers={"content-type": "text/plain"})
    result = response.json()["Result"]
    assert result["FileCount"] == 3
    assert all(file["ChunkMatches"] for file in result["Files"])


async def test_an_undecodable_name_is_shown_with_replacements(client: httpx.AsyncClient) -> None:
    [file] = (await searched(client, "needle file:bad", ChunkMatches=True))["Files"]
    assert file["FileName"] == "sub/bad\ufffd.txt"
    assert plain(file["ChunkMatches"][0]["Content"]) == b"needle \xff\xfe end\n"


async def test_a_count_in_the_query_outranks_the_option(fleet: Fleet, client: httpx.AsyncClient) -> None:
    assert len((await searched(client, "needle count:2", MaxDocDisplayCount=1))["Files"]) == 2
    assert len((await searched(client, "needle count:all", MaxDocDisplayCount=1))["Files"]) == 3
