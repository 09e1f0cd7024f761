"""Repositories that cannot be fetched, in a running fleet: each is shown with its reason and retried, and the others
are served meanwhile."""

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
PUBLIC = "127.0.0.2"  # stands in for a public address; a test machine has no other
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
class HostedFleet:
    """A fleet, the Git server of its repositories, and a second one at another address."""

    fleet: Fleet
    server: GitServer
    public: GitServer
    folder: Path

    def create_repo(self, name: str, files: dict[str, bytes]) -> Repo:
        repo = Repo.create(self.folder / name)
        repo.commit(files)
        return repo

    def create_served_repo(self, name: str, files: dict[str, bytes] | None = None) -> Repo:
        repo = self.create_repo(name, files or {"ship.py": f"def {name}(anchor): ...\n".encode()})
        self.server.serve_clone(repo, f"{name}.git")
        return repo

    def has_no_failures(self, name: str) -> bool:
        """The node serves first and updates the catalog afterwards."""
        repository = self.fleet.repository(name)
        return (repository["reason"], repository["failures"]) == ("", 0)

    def spec(self, name: str, *branches: str, server: GitServer | None = None) -> None:
        spec = {"url": (server or self.server).url(f"{name}.git"), "name": name, "branches": branches}
        status, body = self.fleet.gateways[0].post("/v1/repositories", spec)
        assert status == 201, body

    def notify_push(self, name: str) -> None:
        status, body = self.fleet.gateways[0].post("/v1/webhook", {"url": self.server.url(f"{name}.git")})
        assert (status, body) == (202, {"notified": [name]})

    def search(self, query: str) -> list[str]:
        status, body = self.fleet.gateways[0].post("/v1/search", {"q": query})
        return [f"{file['repository']}/{file['path']}" for file in body["files"]] if status == 200 else []

    def wait_for(self, what: str, **fields: Any) -> None:
        """Wait until these repositories are in these states."""
        eventually(
            lambda: {name: self.fleet.repository(name).get("state") for name in fields} == fields,
            within_s=PATIENCE_S,
            what=what,
        )


@pytest.fixture
def hosted_fleet(tmp_path: Path) -> Iterator[HostedFleet]:
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
        fleet.start(gateways=1, nodes=2)
        yield HostedFleet(fleet, server, public, tmp_path / "origins")


@pytest.mark.timeout(240)
def test_a_failing_repository_is_reported_and_retried_without_blocking_others(hosted_fleet: HostedFleet) -> None:
    add_good_repositories(hosted_fleet)
    client = Client(hosted_fleet.fleet.gateways[0], ("anchor repo:good",))
    client.start()
    try:
        add_bad_repositories(hosted_fleet)
        check_reasons_and_retries(hosted_fleet)
        fix_and_check_served(hosted_fleet)
        check_rewritten_branch(hosted_fleet)
        check_vanished_repository(hosted_fleet)
        check_large_file_skipped(hosted_fleet)
        client.wait_for_rounds()
    finally:
        client.stop()
    assert [each for each in client.responses if each.status != 200 or each.missing] == []
    assert {len(each.body["files"]) for each in client.responses} == {2}


def add_good_repositories(hosted_fleet: HostedFleet) -> None:
    for name in ("good_one", "good_two"):
        hosted_fleet.create_served_repo(name)
        hosted_fleet.spec(name)
    hosted_fleet.wait_for("the good repositories are ready", good_one="ready", good_two="ready")


def add_bad_repositories(hosted_fleet: HostedFleet) -> None:
    hosted_fleet.create_served_repo("secret")
    hosted_fleet.server.faults.passwords["secret.git"] = "captain:treasure"
    hosted_fleet.server.faults.statuses["nowhere.git"] = 404
    Repo.create(hosted_fleet.server.folder / "empty.git", "--bare")
    hosted_fleet.create_served_repo("huge", {"noise.bin": random_bytes(3 * MIB)})
    hosted_fleet.create_served_repo("corrupt", {"ship.py": random_bytes(MIB // 2)})
    damage(hosted_fleet.server.folder / "corrupt.git")
    hosted_fleet.create_served_repo("branchless")
    hosted_fleet.create_served_repo("vault")
    hosted_fleet.public.faults.redirects["led.git"] = hosted_fleet.server.url("vault.git")
    for name in REASONS:
        branches = ("nope",) if name == "branchless" else ()
        hosted_fleet.spec(name, *branches, server=hosted_fleet.public if name == "led" else None)


def random_bytes(number: int) -> bytes:
    """Incompressible bytes."""
    return Random(7).randbytes(number)


def damage(folder: Path) -> None:
    [pack] = (folder / "objects" / "pack").glob("*.pack")
    pack.chmod(0o600)
    content = bytearray(pack.read_bytes())
    for place in range(64, len(content) - 64, 97):
        content[place] ^= 0xFF
    pack.write_bytes(content)


def check_reasons_and_retries(hosted_fleet: HostedFleet) -> None:
    hosted_fleet.wait_for("the bad repositories have failed", **dict.fromkeys(REASONS, "failed"))
    shown = {name: each["reason"] for name, each in hosted_fleet.fleet.repositories().items()}
    assert {name: shown[name] for name, reason in REASONS.items() if reason not in shown[name]} == {}
    eventually(
        lambda: all(hosted_fleet.fleet.repository(name)["failures"] >= 2 for name in REASONS),
        within_s=PATIENCE_S,
        what="each is retried",
    )
    assert [path for _, path, _ in hosted_fleet.server.faults.requests if "vault" in path] == []


def fix_and_check_served(hosted_fleet: HostedFleet) -> None:
    del hosted_fleet.server.faults.passwords["secret.git"], hosted_fleet.server.faults.statuses["nowhere.git"]
    hosted_fleet.create_served_repo("nowhere")
    repo = hosted_fleet.create_repo("filled", {"ship.py": b"def empty(anchor): ...\n"})
    hosted_fleet.server.push(repo, "empty.git", "main")
    branchless = Repo(hosted_fleet.folder / "branchless")
    branchless.git("branch", "nope")
    hosted_fleet.server.push(branchless, "branchless.git", "nope")
    fixed = ("secret", "nowhere", "empty", "branchless")
    hosted_fleet.wait_for("the fixed repositories are ready", **dict.fromkeys(fixed, "ready"))
    for name in fixed:
        assert hosted_fleet.search(f"def.{name}") == [f"{name}/ship.py"]
        eventually(
            partial(hosted_fleet.has_no_failures, name), within_s=PATIENCE_S, what=f"{name}'s failures are reset"
        )


def check_rewritten_branch(hosted_fleet: HostedFleet) -> None:
    repo = hosted_fleet.create_served_repo("rewritten", {"ship.py": b"galleon = 1\n"})
    hosted_fleet.spec("rewritten")
    hosted_fleet.wait_for("the repository is ready", rewritten="ready")
    assert hosted_fleet.search("galleon") == ["rewritten/ship.py"]
    repo.git("checkout", "-q", "--orphan", "rewritten")
    repo.commit({"ship.py": b"trireme = 1\n"})
    hosted_fleet.server.push(repo, "rewritten.git", "rewritten:main")
    hosted_fleet.notify_push("rewritten")
    eventually(
        lambda: bool(hosted_fleet.search("trireme")), within_s=PATIENCE_S, what="the rewritten branch is indexed"
    )
    assert hosted_fleet.search("galleon or trireme") == ["rewritten/ship.py"]
    assert hosted_fleet.search("galleon") == []


def check_vanished_repository(hosted_fleet: HostedFleet) -> None:
    """The index stays served, and the failed fetch is shown."""
    shutil.rmtree(hosted_fleet.server.folder / "secret.git")
    hosted_fleet.notify_push("secret")
    eventually(
        lambda: hosted_fleet.fleet.repository("secret")["failures"] >= 2,
        within_s=PATIENCE_S,
        what="the fetch has failed twice",
    )
    shown = hosted_fleet.fleet.repository("secret")
    assert shown["state"] == "ready"
    assert "repository not found at" in shown["reason"]
    assert hosted_fleet.search("def.secret") == ["secret/ship.py"]


def check_large_file_skipped(hosted_fleet: HostedFleet) -> None:
    """Zeros compress well on the wire, and are not read into memory."""
    hosted_fleet.create_served_repo("wide", {"zeros.bin": bytes(64 * MIB), "ship.py": b"def wide(anchor): ...\n"})
    hosted_fleet.spec("wide")
    hosted_fleet.wait_for("the repository is ready", wide="ready")
    assert hosted_fleet.search("def.wide") == ["wide/ship.py"]
    status, body = hosted_fleet.fleet.gateways[0].get("/v1/repositories/wide/file?path=zeros.bin")
    assert (status, body["content"]) == (200, "")
    assert "large" in body["skipped"]
