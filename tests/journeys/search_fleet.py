"""A search fleet of real processes over real repositories, and clients that send queries in a loop."""

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
from tests.journeys.search_oracle import Oracle, find_violations, options, search_body
from tests.search.backends.repositories import Repo

TOKEN = "open sesame"
TTL_S, WINDOW_S = 3.0, 2.0
PATIENCE_S = 90.0  # generous: the awaited steps take a few seconds on an idle machine
ANSWER_S = 30.0  # upper bound for a response during failures
CLI = ("-m", "argosy.cli")
PAUSE_S = 0.03  # between two requests of one client
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
    "repo:ship-1 anchor",  # most repositories are ruled out by name
    "bosun or keel -file:md",  # more matches than are shown
    "nowhere-to-be-found",
)


def create_origin(folder: Path, number: int) -> Repo:
    """A repository named ship-NN."""
    repo = Repo.create(folder / f"ship-{number:02}")
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
    """One `argosy serve`; `words` replace the default arguments."""

    role: str = "search"
    words: tuple[str, ...] = CLI
    number: int = field(default_factory=count(1).__next__)

    @property
    def log(self) -> Path:
        """Of this process alone: an earlier one may have had the same name."""
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
        """A request with the admin token."""
        connection = HTTPConnection(self.address() or "nowhere", timeout=ANSWER_S)
        try:
            headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
            connection.request(method, path, json.dumps(body), headers)
            answer = connection.getresponse()
            content = answer.read()
            return answer.status, json.loads(content) if content else None
        finally:
            connection.close()

    def is_ready(self) -> bool:
        assert self.is_alive(), f"{self.name} exited with {self.process.returncode}:\n{self.log.read_text()[-4000:]}"
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
class QueryResponse:
    """A response as a client received it; status 0 if the connection closed instead."""

    query: str
    sent_at: float
    received_at: float
    status: int
    body: dict[str, Any]
    retry_after: str | None = None

    @property
    def is_retryable_error(self) -> bool:
        """The body has a message, and the response a Retry-After header."""
        return self.status == 503 and self.retry_after is not None and bool(self.body["error"]["message"])

    @property
    def missing(self) -> set[str]:
        return {each["repository"] for each in self.body.get("missing", ())}


class Client(threading.Thread):
    """Sends all queries to one gateway, one after the other, in a loop."""

    def __init__(self, gateway: Member, queries: tuple[str, ...] = QUERIES) -> None:
        super().__init__(daemon=True)
        self.gateway = gateway
        self._queries = queries
        self._is_over = threading.Event()
        self.responses: list[QueryResponse] = []
        self._taken = 0

    def run(self) -> None:
        address = self.gateway.address()
        assert address is not None
        connection = HTTPConnection(address, timeout=ANSWER_S)
        number = 0
        while not self._is_over.wait(PAUSE_S):
            query = self._queries[number % len(self._queries)]
            number += 1
            self.responses.append(_send_query(connection, query))
            if self.responses[-1].status == 0:
                connection.close()
        connection.close()

    def take(self) -> list[QueryResponse]:
        """The responses since the last call."""
        recent = self.responses[self._taken :]
        self._taken += len(recent)
        return recent

    def shows(self, name: str, version: str | None) -> bool:
        """Whether the last response to every query is of this version of the repository, or without it."""
        last = {each.query: each for each in self.responses[-2 * len(self._queries) :]}.values()
        files = [file for each in last for file in each.body.get("files", ()) if file["repository"] == name]
        if version is None:
            return not files and not any(name in each.missing for each in last)
        return bool(files) and all(file["version"] == version for file in files)

    def wait_for_rounds(self, rounds: int = 2) -> None:
        """Wait until every query was sent and answered this often from now on."""
        target = len(self.responses) + rounds * len(self._queries) + 1
        eventually(lambda: len(self.responses) >= target, within_s=PATIENCE_S, what=f"{self.gateway.name} responds")

    def stop(self) -> None:
        self._is_over.set()
        self.join(timeout=ANSWER_S + 5)


def _send_query(connection: HTTPConnection, query: str) -> QueryResponse:
    sent_at = time.monotonic()
    try:
        connection.request("POST", "/v1/search", json.dumps(search_body(query)))
        answer = connection.getresponse()
        body = json.loads(answer.read())
        return QueryResponse(query, sent_at, time.monotonic(), answer.status, body, answer.getheader("retry-after"))
    except (OSError, HTTPException, ValueError):
        return QueryResponse(query, sent_at, time.monotonic(), 0, {})


class DirectClient(threading.Thread):
    """Searches repositories on one node directly, which may no longer hold them; requests wait while it is stopped."""

    def __init__(self, node: Member, names: tuple[str, ...]) -> None:
        super().__init__(daemon=True)
        self._node = node
        self._names = names
        self._is_over = threading.Event()
        self.responses: list[tuple[float, SearchResult]] = []

    def run(self) -> None:
        body = pack(SearchRequest(encode_query(Substring("anchor")), self._names, options("anchor")))
        while not self._is_over.wait(PAUSE_S):
            sent_at = time.monotonic()
            connection = HTTPConnection(self._node.address() or "nowhere", timeout=ANSWER_S)
            try:
                connection.request("POST", SEARCH_PATH, body)
                answer = connection.getresponse()
                if answer.status == 200:
                    self.responses.append((sent_at, unpack(answer.read(), SearchResult)))
            except (OSError, HTTPException):
                pass
            finally:
                connection.close()

    def stop(self) -> list[tuple[float, SearchResult]]:
        self._is_over.set()
        self.join(timeout=ANSWER_S + 5)
        return self.responses


@dataclass
class Fleet:
    """Gateways and search nodes with shared settings; requests about the fleet go to the first gateway."""

    folder: Path
    settings: dict[str, str]
    gateways: list[Member] = field(default_factory=list)
    nodes: list[Member] = field(default_factory=list)
    words: tuple[str, ...] = CLI
    started: list[Member] = field(default_factory=list)

    def member(self, name: str, role: str, **changes: str) -> Member:
        """Start a process."""
        member = Member(name, self.folder, {**self.settings, **changes}, role=role, words=self.words)
        (self.gateways if role == "gateway" else self.nodes).append(member)
        member.start()
        self.started.append(member)
        return member

    def start(self, *, gateways: int, nodes: int, **changes: str) -> None:
        for number in range(1, nodes + 1):
            self.member(f"node-{number}", "search", ownership_members_min=str(nodes), **changes)
        for number in range(1, gateways + 1):
            # The first has no cache, so every response is computed.
            self.member(f"gateway-{number}", "gateway", gateway_cache_entries="0" if number == 1 else "1024")
        self.wait_up()

    def wait_up(self) -> None:
        members = [*self.gateways, *self.nodes]
        eventually(lambda: all(each.is_ready() for each in members), within_s=PATIENCE_S, what="all processes are up")

    def add(self, repo: Repo, **spec: Any) -> None:
        spec = {"url": str(repo.path), "name": repo.path.name, "branches": ["main"], **spec}
        status, body = self.gateways[0].post("/v1/repositories", spec)
        assert status == 201, body

    def notify_push(self, repo: Repo) -> None:
        status, body = self.gateways[0].post("/v1/webhook", {"url": str(repo.path)})
        assert (status, body) == (202, {"notified": [repo.path.name]})

    def remove(self, name: str) -> None:
        assert self.gateways[0].post(f"/v1/repositories/{quote(name)}", None, "DELETE") == (204, None)

    def repositories(self) -> dict[str, dict[str, Any]]:
        status, body = self.gateways[0].get("/v1/repositories", ANSWER_S)
        return {each["name"]: each for each in body["repositories"]} if status == 200 else {}

    def repository(self, name: str) -> dict[str, Any]:
        return self.repositories().get(name, {})

    def version(self, name: str) -> str:
        """The commit of the index that serves it."""
        branches = self.repository(name).get("branches")
        return branches[0]["version"] if branches else ""

    def held_by(self, node: Member) -> set[str]:
        """The repositories this node serves, according to the first gateway."""
        return {name for name, each in self.repositories().items() if node.address() in _ready_at(each)}

    def is_settled(self) -> bool:
        """Every repository has all its holders, all of them alive and ready."""
        living = {node.address() for node in self.nodes if node.is_alive()}
        by_name = self.repositories()
        return bool(by_name) and all(
            len(_ready_at(each)) == 1 + each["replicas"] == len(each["holders"]) and _ready_at(each) <= living
            for each in by_name.values()
        )

    def wait_settled(self, what: str) -> float:
        return eventually(self.is_settled, within_s=PATIENCE_S, what=f"every repository is ready {what}")

    def wait_gone(self, node: Member) -> None:
        """Wait for a clean exit."""
        eventually(lambda: not node.is_alive(), within_s=PATIENCE_S, what=f"{node.name} leaves")
        assert node.process.returncode == 0, node.log.read_text()[-4000:]
        self.nodes.remove(node)


def _ready_at(repository: dict[str, Any]) -> set[str]:
    """Addresses, because a restarted node keeps its name."""
    return {holder["address"] for holder in repository["holders"] if holder["state"] == "ready"}


@contextmanager
def fleet_in(folder: Path, **settings: str) -> Iterator[Fleet]:
    """An empty fleet; all its processes are stopped at the end."""
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
    """A fleet over repositories, its clients, and the oracle that checks the responses."""

    fleet: Fleet
    repos: dict[str, Repo]
    oracle: Oracle
    clients: list[Client]

    def check_responses(self) -> list[QueryResponse]:
        """Responses since the last check; none of them is wrong."""
        responses = []
        for client in self.clients:
            client.wait_for_rounds(1)
            recent = client.take()
            invalid = [each for each in recent if each.status != 200 and not each.is_retryable_error]
            assert not invalid, invalid
            answers = [(each.query, each.body) for each in recent if each.status == 200]
            are_cached = client.gateway.settings["gateway_cache_entries"] != "0"
            wrong = find_violations(self.oracle, answers, are_cached=are_cached)
            assert not wrong, wrong
            responses += recent
        return responses

    def check_complete(self) -> None:
        """Every request succeeded, with no repository missing."""
        self.check_served()

    def check_served(self, *, but: Collection[str] = ()) -> None:
        """Every request succeeded, with no repositories missing but these."""
        responses = self.check_responses()
        failed = [each for each in responses if each.status != 200]
        assert not failed, failed
        missing = [each for one in responses for each in one.body["missing"] if each["repository"] not in but]
        assert not missing, missing

    def add_client(self, gateway: Member) -> Client:
        client = Client(gateway)
        client.start()
        self.clients.append(client)
        return client

    def remove_client(self, client: Client) -> None:
        client.stop()
        self.clients.remove(client)

    def settle(self, name: str, version: str | None) -> None:
        """Wait until clients see only this version of the repository."""
        for client in self.clients:
            what = f"{client.gateway.name} shows the current {name}"
            eventually(lambda each=client: each.shows(name, version), within_s=PATIENCE_S, what=what)

    def push(self, name: str, cargo: bytes = b"") -> None:
        """Commit and notify the fleet."""
        repo = self.repos[name]
        repo.commit({"src/news.py": b"def moor_again(anchor):\n    return anchor\n", "cargo.txt": cargo})
        self.oracle.learn(name, repo.path)
        self.fleet.notify_push(repo)
