"""Repositories that cannot be had, in a running fleet: each is shown with its reason and tried again, and those that
can be had answer all the while."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.journeys.fleet import eventually
from tests.journeys.search_fleet import PATIENCE_S, Client, Fleet, fleet_in
from tests.search.backends.repositories import Repo
from tests.servers.git_http import GitServer, git_server
from tests.servers.valkey import Valkey

MIB = 1 << 20
PUBLIC = "127.0.0.2"  # taken for an address of the open internet; this machine has no other
NODE = f"""
from argosy.search.backends import remote
remote.RemoteFetcher.__init__.__kwdefaults__["private"] = lambda number: number != "{PUBLIC}"
from argosy.cli import main
main()
"""

REASONS = {
    "secret": "credentials required for 127.0.0.1",
    "nowhere": "repository not found at",
    "empty": "is empty; push a first commit",
    "huge": "is larger than 1 MiB",
    "corrupt": "failed; retrying later",
    "branchless": "branch 'nope' not found",
    "led": "redirects to 127.0.0.1",
}


@dataclass
class Harbour:
    """A fleet, the server that its repositories come from, and one at another address."""

    fleet: Fleet
    server: GitServer
    public: GitServer
    folder: Path

    def made(self, name: str, files: dict[str, bytes]) -> Repo:
        repo = Repo.made(self.folder / name)
        repo.commit(files)
        return repo

    def shared(self, name: str, files: dict[str, bytes] | None = None) -> Repo:
        repo = self.made(name, files or {"ship.py": f"def {name}(anchor): ...\n".encode()})
        self.server.shares(repo, f"{name}.git")
        return repo

    def is_untroubled(self, name: str) -> bool:
        """The node serves first and notes it in the catalog afterwards."""
        told = self.fleet.repository(name)
        return (told["reason"], told["failures"]) == ("", 0)

    def spec(self, name: str, *branches: str, server: GitServer | None = None) -> None:
        spec = {"url": (server or self.server).url(f"{name}.git"), "name": name, "branches": branches}
        status, said = self.fleet.doors[0].post("/v1/repositories", spec)
        assert status == 201, said

    def tell(self, name: str) -> None:
        status, said = self.fleet.doors[0].post("/v1/webhook", {"url": self.server.url(f"{name}.git")})
        assert (status, said) == (202, {"notified": [name]})

    def found(self, query: str) -> list[str]:
        status, said = self.fleet.doors[0].post("/v1/search", {"q": query})
        return [f"{file['repository']}/{file['path']}" for file in said["files"]] if status == 200 else []

    def wait_for(self, what: str, **fields: Any) -> None:
        """Until these repositories are in these states."""
        eventually(
            lambda: {name: self.fleet.repository(name).get("state") for name in fields} == fields,
            within_s=PATIENCE_S,
            what=what,
        )


@pytest.fixture
def harbour(tmp_path: Path) -> Iterator[Harbour]:
    with (
        Valkey() as valkey,
        git_server(tmp_path / "served") as server,
        git_server(tmp_path / "public", PUBLIC) as public,
        fleet_in(
            tmp_path,
            ownership_store=valkey.url,
            ownership_grace_s="0",
            ownership_window_s="0.5",
            ownership_default_footprint_bytes=str(MIB),
            registry_url=valkey.url,
            fetch_repository_bytes_max=str(MIB),
        ) as fleet,
    ):
        fleet.words = ("-c", NODE)
        fleet.start(doors=1, nodes=2)
        yield Harbour(fleet, server, public, tmp_path / "origins")


@pytest.mark.timeout(240)
def test_a_bad_repository_is_told_and_tried_again_and_holds_nobody_up(harbour: Harbour) -> None:
    wish_for_good_ones(harbour)
    client = Client(harbour.fleet.doors[0], ("anchor repo:good",))
    client.start()
    try:
        wish_for_bad_ones(harbour)
        see_them_told_and_tried_again(harbour)
        see_the_mended_ones_answer(harbour)
        see_one_rewritten(harbour)
        see_one_vanish(harbour)
        see_a_large_file_left_out(harbour)
        client.wait_for_rounds()
    finally:
        client.stop()
    assert [each for each in client.seen if each.status != 200 or each.missing] == []
    assert {len(each.told["files"]) for each in client.seen} == {2}


def wish_for_good_ones(harbour: Harbour) -> None:
    for name in ("good_one", "good_two"):
        harbour.shared(name)
        harbour.spec(name)
    harbour.wait_for("the good ones are ready", good_one="ready", good_two="ready")


def wish_for_bad_ones(harbour: Harbour) -> None:
    harbour.shared("secret")
    harbour.server.moods.passwords["secret.git"] = "captain:treasure"
    harbour.server.moods.statuses["nowhere.git"] = 404
    Repo.made(harbour.server.folder / "empty.git", "--bare")
    harbour.shared("huge", {"noise.bin": random_bytes(3 * MIB)})
    harbour.shared("corrupt", {"ship.py": random_bytes(MIB // 2)})
    damage(harbour.server.folder / "corrupt.git")
    harbour.shared("branchless")
    harbour.shared("vault")
    harbour.public.moods.redirects["led.git"] = harbour.server.url("vault.git")
    for name in REASONS:
        branches = ("nope",) if name == "branchless" else ()
        harbour.spec(name, *branches, server=harbour.public if name == "led" else None)


def random_bytes(number: int) -> bytes:
    """Which no compression makes smaller."""
    return Random(7).randbytes(number)


def damage(folder: Path) -> None:
    [pack] = (folder / "objects" / "pack").glob("*.pack")
    pack.chmod(0o600)
    content = bytearray(pack.read_bytes())
    for place in range(64, len(content) - 64, 97):
        content[place] ^= 0xFF
    pack.write_bytes(content)


def see_them_told_and_tried_again(harbour: Harbour) -> None:
    harbour.wait_for("the bad ones have failed", **dict.fromkeys(REASONS, "failed"))
    shown = {name: each["reason"] for name, each in harbour.fleet.repositories().items()}
    assert {name: shown[name] for name, reason in REASONS.items() if reason not in shown[name]} == {}
    eventually(
        lambda: all(harbour.fleet.repository(name)["failures"] >= 2 for name in REASONS),
        within_s=PATIENCE_S,
        what="each is tried again",
    )
    assert [path for _, path, _ in harbour.server.moods.asked if "vault" in path] == []


def see_the_mended_ones_answer(harbour: Harbour) -> None:
    del harbour.server.moods.passwords["secret.git"], harbour.server.moods.statuses["nowhere.git"]
    harbour.shared("nowhere")
    repo = harbour.made("filled", {"ship.py": b"def empty(anchor): ...\n"})
    harbour.server.push(repo, "empty.git", "main")
    branchless = Repo(harbour.folder / "branchless")
    branchless.git("branch", "nope")
    harbour.server.push(branchless, "branchless.git", "nope")
    mended = ("secret", "nowhere", "empty", "branchless")
    harbour.wait_for("the mended ones are ready", **dict.fromkeys(mended, "ready"))
    for name in mended:
        assert harbour.found(f"def.{name}") == [f"{name}/ship.py"]
        eventually(partial(harbour.is_untroubled, name), within_s=PATIENCE_S, what=f"{name}'s failures are forgotten")


def see_one_rewritten(harbour: Harbour) -> None:
    repo = harbour.shared("rewritten", {"ship.py": b"galleon = 1\n"})
    harbour.spec("rewritten")
    harbour.wait_for("it is ready", rewritten="ready")
    assert harbour.found("galleon") == ["rewritten/ship.py"]
    repo.git("checkout", "-q", "--orphan", "anew")
    repo.commit({"ship.py": b"trireme = 1\n"})
    harbour.server.push(repo, "rewritten.git", "anew:main")
    harbour.tell("rewritten")
    eventually(lambda: bool(harbour.found("trireme")), within_s=PATIENCE_S, what="it is indexed anew")
    assert harbour.found("galleon or trireme") == ["rewritten/ship.py"]
    assert harbour.found("galleon") == []


def see_one_vanish(harbour: Harbour) -> None:
    """What is indexed goes on answering; that it can no longer be had is shown."""
    shutil.rmtree(harbour.server.folder / "secret.git")
    harbour.tell("secret")
    eventually(lambda: harbour.fleet.repository("secret")["failures"] >= 2, within_s=PATIENCE_S, what="it is missed")
    shown = harbour.fleet.repository("secret")
    assert shown["state"] == "ready"
    assert "repository not found at" in shown["reason"]
    assert harbour.found("def.secret") == ["secret/ship.py"]


def see_a_large_file_left_out(harbour: Harbour) -> None:
    """Zeros take little room on their way, and are not read into memory."""
    harbour.shared("wide", {"zeros.bin": bytes(64 * MIB), "ship.py": b"def wide(anchor): ...\n"})
    harbour.spec("wide")
    harbour.wait_for("it is ready", wide="ready")
    assert harbour.found("def.wide") == ["wide/ship.py"]
    status, said = harbour.fleet.doors[0].get("/v1/repositories/wide/file?path=zeros.bin")
    assert (status, said["content"]) == (200, "")
    assert "large" in said["skipped"]
