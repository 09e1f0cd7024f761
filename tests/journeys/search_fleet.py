"""A search fleet of real processes over real repositories, and clients that never stop asking it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

from argosy.search.fleet.model import SearchRequest
from argosy.search.fleet.protocol import SEARCH_PATH, pack, unpack
from argosy.search.model import SearchResult
from argosy.search.query.codec import encode_query
from argosy.search.query.tree import Substring
from tests.journeys.fleet import NodeProcess, eventually
from tests.journeys.search_oracle import Oracle, complaints, options, question
from tests.search.backends.repositories import Repo

TOKEN = "open sesame"
TTL_S, WINDOW_S = 3.0, 2.0
PATIENCE_S = 90.0  # for what takes a few seconds on an idle machine
ANSWER_S = 30.0  # no answer takes longer, whatever happens
CLI = ("-m", "argosy.cli")
PAUSE_S = 0.03  # between two questions of one client
SETTINGS = {
    "ownership_ttl_s": str(TTL_S),
    "ownership_renew_s": "0.7",
    "ownership_window_s": str(WINDOW_S),
    "ownership_sweep_s": "0.25",
    "node_admin_token": TOKEN,
    "fetch_allow_local": "true",
    "search_budget_bytes": str(1 << 30),
    "search_retry_first_s": "0.5",
    "gateway_status_s": "0.1",
    "gateway_cache_entries": "1024",
}
QUERIES = (
    "anchor",  # in every repository
    "harbour-0[369]",  # in a few
    "sym:moor lang:python",
    "file:log/ storm case:yes",
    "repo:ship-1 anchor",  # most are ruled out by their names
    "bosun or keel -file:md",  # not all that is found is shown
    "nowhere-to-be-found",
)


def make_origin(folder: Path, number: int) -> Repo:
    """A repository called ship-NN."""
    repo = Repo.made(folder / f"ship-{number:02}")
    files = {
        "src/ship.py": f"def moor_{number}(anchor):\n    return anchor + {number}\n\nhome = 'harbour-{number:02}'\n",
        "src/crew.go": f'package crew\n\nfunc Bosun{number % 3}() string {{ return "keel" }}\n',
        "log/day.txt": "calm sea\n" * number + f"storm at {number}\nanchor lost\n",
        "README.md": f"# Ship {number}\n\nbosun, keel and anchor\n",
    }
    repo.commit({path: text.encode() for path, text in files.items()})
    return repo


@dataclass
class Member(NodeProcess):
    """One `argosy serve`; `words` are said in its place if they must be others."""

    role: str = "search"
    words: tuple[str, ...] = CLI
    number: int = field(default_factory=count(1).__next__)

    @property
    def log(self) -> Path:
        """Of this process alone: another one may have had its name."""
        return self.folder / f"{self.name}.{self.number}.log"

    def start(self) -> None:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ARGOSY_")},
            **{f"ARGOSY_{name.upper()}": value for name, value in self.settings.items()},
            "ARGOSY_NODE_ID": self.name,
            "ARGOSY_NODE_PORT": "0",
            "ARGOSY_LOG_FORMAT": "json",
        }
        command = [sys.executable, *self.words, "serve", "--role", self.role]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def post(self, path: str, body: Any, method: str = "POST") -> tuple[int, Any]:
        """As an operator."""
        connection = HTTPConnection(self.address() or "nowhere", timeout=ANSWER_S)
        try:
            headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
            connection.request(method, path, json.dumps(body), headers)
            answer = connection.getresponse()
            said = answer.read()
            return answer.status, json.loads(said) if said else None
        finally:
            connection.close()

    def is_ready(self) -> bool:
        assert self.is_alive(), f"{self.name} ended with {self.process.returncode}:\n{self.log.read_text()[-4000:]}"
        return self.address() is not None and self._is_readyz_ok()

    def _is_readyz_ok(self) -> bool:
        connection = HTTPConnection(self.address() or "nowhere", timeout=ANSWER_S)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

    def drain(self) -> None:
        assert self.post("/v1/drain", {})[0] == 202


@dataclass(frozen=True)
class Seen:
    """What a client was answered; status 0 if the connection ended instead."""

    query: str
    asked_at: float
    answered_at: float
    status: int
    told: dict[str, Any]
    retry_after: str | None = None

    @property
    def is_honest_error(self) -> bool:
        """It says that it is one, and when to come back."""
        return self.status == 503 and self.retry_after is not None and bool(self.told["error"]["message"])

    @property
    def missing(self) -> set[str]:
        return {each["repository"] for each in self.told.get("missing", ())}


class Client(threading.Thread):
    """Asks one front door all queries, one after the other, over and over."""

    def __init__(self, door: Member, queries: tuple[str, ...] = QUERIES) -> None:
        super().__init__(daemon=True)
        self.door = door
        self._queries = queries
        self._is_over = threading.Event()
        self.seen: list[Seen] = []
        self._taken = 0

    def run(self) -> None:
        address = self.door.address()
        assert address is not None
        connection = HTTPConnection(address, timeout=ANSWER_S)
        number = 0
        while not self._is_over.wait(PAUSE_S):
            query = self._queries[number % len(self._queries)]
            number += 1
            self.seen.append(_asked(connection, query))
            if self.seen[-1].status == 0:
                connection.close()
        connection.close()

    def take(self) -> list[Seen]:
        """What was seen since it was last taken."""
        taken = self.seen[self._taken :]
        self._taken += len(taken)
        return taken

    def shows(self, name: str, version: str | None) -> bool:
        """Whether the last answer to every query is of this version of the repository, or of none."""
        last = {each.query: each for each in self.seen[-2 * len(self._queries) :]}.values()
        files = [file for each in last for file in each.told.get("files", ()) if file["repository"] == name]
        if version is None:
            return not files and not any(name in each.missing for each in last)
        return bool(files) and all(file["version"] == version for file in files)

    def wait_for_rounds(self, rounds: int = 2) -> None:
        """Until every query has been asked and answered so often from now on."""
        until = len(self.seen) + rounds * len(self._queries) + 1
        eventually(lambda: len(self.seen) >= until, within_s=PATIENCE_S, what=f"{self.door.name} is asked")

    def stop(self) -> None:
        self._is_over.set()
        self.join(timeout=ANSWER_S + 5)


def _asked(connection: HTTPConnection, query: str) -> Seen:
    asked_at = time.monotonic()
    try:
        connection.request("POST", "/v1/search", json.dumps(question(query)))
        answer = connection.getresponse()
        told = json.loads(answer.read())
        return Seen(query, asked_at, time.monotonic(), answer.status, told, answer.getheader("retry-after"))
    except (OSError, HTTPException, ValueError):
        return Seen(query, asked_at, time.monotonic(), 0, {})


class Stranger(threading.Thread):
    """Asks one node itself about repositories that it may no longer hold; its last questions wait while it sleeps."""

    def __init__(self, node: Member, names: tuple[str, ...]) -> None:
        super().__init__(daemon=True)
        self._node = node
        self._names = names
        self._is_over = threading.Event()
        self.seen: list[tuple[float, SearchResult]] = []

    def run(self) -> None:
        body = pack(SearchRequest(encode_query(Substring("anchor")), self._names, options("anchor")))
        while not self._is_over.wait(PAUSE_S):
            asked_at = time.monotonic()
            connection = HTTPConnection(self._node.address() or "nowhere", timeout=ANSWER_S)
            try:
                connection.request("POST", SEARCH_PATH, body)
                answer = connection.getresponse()
                if answer.status == 200:
                    self.seen.append((asked_at, unpack(answer.read(), SearchResult)))
            except (OSError, HTTPException):
                pass
            finally:
                connection.close()

    def stop(self) -> list[tuple[float, SearchResult]]:
        self._is_over.set()
        self.join(timeout=ANSWER_S + 5)
        return self.seen


@dataclass
class Fleet:
    """Front doors and search nodes with the settings that they share; the first door is asked about the fleet."""

    folder: Path
    settings: dict[str, str]
    doors: list[Member] = field(default_factory=list)
    nodes: list[Member] = field(default_factory=list)
    words: tuple[str, ...] = CLI
    started: list[Member] = field(default_factory=list)

    def member(self, name: str, role: str, **changes: str) -> Member:
        """Starts a process."""
        member = Member(name, self.folder, {**self.settings, **changes}, role=role, words=self.words)
        (self.doors if role == "gateway" else self.nodes).append(member)
        member.start()
        self.started.append(member)
        return member

    def start(self, *, doors: int, nodes: int, **changes: str) -> None:
        for number in range(1, nodes + 1):
            self.member(f"node-{number}", "search", ownership_members_min=str(nodes), **changes)
        for number in range(1, doors + 1):
            # The first remembers no answers, so that each one is made anew.
            self.member(f"door-{number}", "gateway", gateway_cache_entries="0" if number == 1 else "1024")
        self.wait_up()

    def wait_up(self) -> None:
        members = [*self.doors, *self.nodes]
        eventually(lambda: all(each.is_ready() for each in members), within_s=PATIENCE_S, what="all processes are up")

    def add(self, repo: Repo, **spec: Any) -> None:
        spec = {"url": str(repo.path), "name": repo.path.name, "branches": ["main"], **spec}
        status, said = self.doors[0].post("/v1/repositories", spec)
        assert status == 201, said

    def tell_pushed(self, repo: Repo) -> None:
        status, said = self.doors[0].post("/v1/webhook", {"url": str(repo.path)})
        assert (status, said) == (202, {"notified": [repo.path.name]})

    def remove(self, name: str) -> None:
        assert self.doors[0].post(f"/v1/repositories/{quote(name)}", None, "DELETE") == (204, None)

    def repositories(self) -> dict[str, dict[str, Any]]:
        status, said = self.doors[0].get("/v1/repositories", ANSWER_S)
        return {each["name"]: each for each in said["repositories"]} if status == 200 else {}

    def repository(self, name: str) -> dict[str, Any]:
        return self.repositories().get(name, {})

    def version(self, name: str) -> str:
        """The commit that its holder answers with."""
        branches = self.repository(name).get("branches")
        return branches[0]["version"] if branches else ""

    def held_by(self, node: Member) -> set[str]:
        """Those that this node answers for, as far as the first door knows."""
        return {name for name, each in self.repositories().items() if node.address() in _ready_at(each)}

    def is_settled(self) -> bool:
        """All repositories have all their holders, living ones, and all of them are ready."""
        living = {node.address() for node in self.nodes if node.is_alive()}
        found = self.repositories()
        return bool(found) and all(
            len(_ready_at(each)) == 1 + each["replicas"] == len(each["holders"]) and _ready_at(each) <= living
            for each in found.values()
        )

    def wait_settled(self, what: str) -> float:
        return eventually(self.is_settled, within_s=PATIENCE_S, what=f"every repository is ready {what}")

    def wait_gone(self, node: Member) -> None:
        """Until it has left by itself, in good order."""
        eventually(lambda: not node.is_alive(), within_s=PATIENCE_S, what=f"{node.name} leaves")
        assert node.process.returncode == 0, node.log.read_text()[-4000:]
        self.nodes.remove(node)


def _ready_at(repository: dict[str, Any]) -> set[str]:
    """By address: a node that was killed and started anew has its old name."""
    return {holder["address"] for holder in repository["holders"] if holder["state"] == "ready"}


@contextmanager
def fleet_in(folder: Path, **settings: str) -> Iterator[Fleet]:
    """An empty fleet; whatever was started in it ends with it."""
    fleet = Fleet(folder, {**SETTINGS, "node_data_dir": str(folder / "data"), **settings})
    try:
        yield fleet
    finally:
        for member in fleet.started:
            if member.is_alive():
                member.signal(signal.SIGCONT)
                member.kill()


@dataclass
class World:
    """A fleet over repositories, its clients, and the oracle that judges what they see."""

    fleet: Fleet
    repos: dict[str, Repo]
    oracle: Oracle
    clients: list[Client]

    def judged(self) -> list[Seen]:
        """What the clients saw since the last judgement; none of it was wrong."""
        seen = []
        for client in self.clients:
            client.wait_for_rounds(1)
            taken = client.take()
            dishonest = [each for each in taken if each.status != 200 and not each.is_honest_error]
            assert not dishonest, dishonest
            answers = [(each.query, each.told) for each in taken if each.status == 200]
            are_remembered = client.door.settings["gateway_cache_entries"] != "0"
            wrong = complaints(self.oracle, answers, are_remembered=are_remembered)
            assert not wrong, wrong
            seen += taken
        return seen

    def judged_whole(self) -> None:
        """Every question was answered, for all repositories."""
        self.judged_served()

    def judged_served(self, *, but: Collection[str] = ()) -> None:
        """Every question was answered, for all repositories but these."""
        seen = self.judged()
        failed = [each for each in seen if each.status != 200]
        assert not failed, failed
        lacking = [each for one in seen for each in one.told["missing"] if each["repository"] not in but]
        assert not lacking, lacking

    def ask(self, door: Member) -> Client:
        client = Client(door)
        client.start()
        self.clients.append(client)
        return client

    def forget(self, client: Client) -> None:
        client.stop()
        self.clients.remove(client)

    def settle(self, name: str, version: str | None) -> None:
        """Waits until this version of the repository is all that clients see."""
        for client in self.clients:
            what = f"{client.door.name} shows {name} as it is now"
            eventually(lambda each=client: each.shows(name, version), within_s=PATIENCE_S, what=what)

    def push(self, name: str, cargo: bytes = b"") -> None:
        """A new commit, of which the fleet is told."""
        repo = self.repos[name]
        repo.commit({"src/news.py": b"def moor_anew(anchor):\n    return anchor\n", "cargo.txt": cargo})
        self.oracle.learn(name, repo.path)
        self.fleet.tell_pushed(repo)
