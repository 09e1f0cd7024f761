"""`argosy ipni`: invalid arguments, and withdrawals. With an indexer: tests/journeys/test_content_commands.py."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from argosy.cli.output import print_table
from argosy.cli.root import cli
from argosy.ipni.formats import metadata
from argosy.ipni.publish.backends.sqlite import SqliteChain

PEER = "12D3KooWEW5GoYak4S23Z9rSiKHAcKWx9qH7rwVgCsmvRyvghB8x"
CHAIN = "http://127.0.0.1:9"


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, ["ipni", *map(str, words)])


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ARGOSY_NODE_DATA_DIR", str(tmp_path / "data"))
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "one").write_bytes(b"one")
    return folder


@pytest.mark.parametrize("option", ["--url", "--admin-url"])
@pytest.mark.parametrize("url", ["127.0.0.1:3000", "indexer", "ftp://indexer", "http://"])
def test_an_invalid_url_gets_no_request(option: str, url: str) -> None:
    answer = run("status", option, url)
    assert (answer.exit_code, answer.stderr) == (
        2,
        f"error: invalid URL {url!r}: expected http://host:port or https://host\n",
    )


def test_an_invalid_address_is_reported_before_the_indexer_is_called() -> None:
    answer = run("sync", PEER, "--address", "elsewhere", "--url", CHAIN)
    assert answer.exit_code == 2
    assert "'elsewhere' is not an address: it begins with a slash" in answer.stderr


def test_deleted_files_can_still_be_withdrawn(paths: Path) -> None:
    once = ("--once", "--address", CHAIN, "--json")
    published = run("publish", paths, *once)
    assert published.exit_code == 0, published.stderr
    (paths / "one").unlink()
    paths.rmdir()
    gone = run("publish", paths, *once)
    assert gone.exit_code == 2
    assert f"not found: {paths}" in gone.stderr
    withdrawn = run("publish", paths, "--withdraw", *once)
    assert withdrawn.exit_code == 0, withdrawn.stderr
    before, after = json.loads(published.stdout), json.loads(withdrawn.stdout)
    [was] = before["published"]
    assert after["head"] != before["head"]  # the removal
    assert after["withdrawn"] == [
        {"path": str(paths), "context": was["context"], "files": 1, "advertisement": after["head"]}
    ]
    again = json.loads(run("publish", paths, "--withdraw", *once).stdout)
    assert again["head"] == after["head"]
    assert again["withdrawn"] == [{"path": str(paths), "context": "", "files": 0, "advertisement": None}]


def test_withdrawals_are_printed(paths: Path) -> None:
    once = ("--once", "--address", CHAIN)
    run("publish", paths, *once)
    first, second = (run("publish", paths, "--withdraw", *once).stdout.splitlines()[1] for _ in range(2))
    assert first.startswith(f"{paths}  withdrawn, 1 files  baguqeera")
    assert second == f"{paths}  not published, nothing to withdraw"
    nothing = run("publish", "--withdraw", *once)
    assert (nothing.exit_code, "requires at least one path" in nothing.stderr) == (2, True)


@pytest.mark.parametrize(("at", "claimed"), [((), []), (("--at", "https://files.example.org"), [metadata.HTTP])])
async def test_a_gateway_is_claimed_only_where_one_is_named(
    paths: Path, at: tuple[str, ...], claimed: list[int]
) -> None:
    published = await asyncio.to_thread(run, "publish", paths, "--once", "--address", CHAIN, *at, "--json")
    result = json.loads(published.stdout)
    chain = await SqliteChain.read(paths.parent / "data" / "publisher" / "chain.sqlite")
    try:
        [published] = await chain.list_contexts(result["publisher"])
    finally:
        await chain.close()
    names = [name for name, _ in metadata.protocols(published.metadata)]
    assert [name for name in names if name in metadata.NAMES.values()] == [metadata.NAMES[code] for code in claimed]


@pytest.mark.parametrize("verb", ["allow", "block", "assign", "unassign"])
def test_an_invalid_peer_id_is_reported_with_an_example(verb: str) -> None:
    answer = run(verb, "nope", "--url", CHAIN)
    assert (answer.exit_code, answer.stderr) == (
        2,
        "error: 'nope' is no peer id: one looks like 12D3KooW… or Qm…, or as a CID bafz…\n",
    )


def test_ids_in_a_piped_table_are_not_truncated(capsys: pytest.CaptureFixture[str]) -> None:
    cid = "baguqeera" + "a" * 51
    row = (PEER, PEER, cid, "2026-01-01 00:00:00+00:00", 12, cid, "a long error " * 20)
    print_table(("id", "publisher", "last_ad", "last_ad_at", "lag", "frozen_at", "last_error"), [row], empty="")
    _, line = capsys.readouterr().out.splitlines()
    assert line.split()[:3] == [PEER, PEER, cid]
    assert line.rstrip().endswith(row[-1].rstrip())
