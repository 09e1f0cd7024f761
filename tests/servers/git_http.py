"""A real git server over HTTP for tests: git's own `http-backend` behind Python's server, with injectable faults."""

import os
import subprocess
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from tests.search.backends.repositories import Repo

HUNG_S_MAX = 60.0  # upper bound for a request without a response


@dataclass
class ServerFaults:
    """Faults to inject; paths are the first segment of the URL, as in `/app.git/info/refs`."""

    passwords: dict[str, str] = field(default_factory=dict)  # path: the only accepted user:password
    redirects: dict[str, str] = field(default_factory=dict)  # path: the address to redirect to
    statuses: dict[str, int] = field(default_factory=dict)  # path: the status of every response
    cut_bytes: int = 0  # responses to POST are cut after this many
    echoes: bool = False  # returns the credentials it was sent in an error
    hangs: bool = False  # accepts requests and never responds
    requests: list[tuple[str, str, str]] = field(default_factory=list)  # method, path and authorization of each request
    request_received: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class GitServer:
    """Serves the bare repositories of a directory."""

    folder: Path
    host: str
    port: int
    faults: ServerFaults

    def url(self, name: str) -> str:
        return f"http://{self.host}:{self.port}/{name}"

    def serve_clone(self, repo: Repo, name: str) -> str:
        """Serve a bare clone of the repository's current state, and return its address."""
        repo.clone(self.folder / name, "--bare")
        return self.url(name)

    def push(self, repo: Repo, name: str, *refs: str) -> None:
        repo.git("push", "-q", "--force", f"file://{self.folder / name}", *refs)


@contextmanager
def git_server(folder: Path, host: str = "127.0.0.1") -> Iterator[GitServer]:
    folder.mkdir(parents=True, exist_ok=True)
    injected = ServerFaults()

    class Handler(_Handler):
        root = folder
        faults = injected

    server = ThreadingHTTPServer((host, 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, name="git-http", daemon=True)
    thread.start()
    try:
        yield GitServer(folder, host, server.server_address[1], injected)
    finally:
        injected.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    root: Path
    faults: ServerFaults
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def _serve(self) -> None:
        authorization = self.headers.get("authorization", "")
        self.faults.requests.append((self.command, self.path, authorization))
        self.faults.request_received.set()
        if self.faults.hangs:
            self.faults.released.wait(HUNG_S_MAX)
            return
        name, _, rest = self.path.lstrip("/").partition("/")
        if name in self.faults.redirects:
            self._answer(301, {"location": f"{self.faults.redirects[name]}/{rest}"})
        elif name in self.faults.statuses:
            self._answer(self.faults.statuses[name], {}, self._page(authorization))
        elif name in self.faults.passwords and authorization != f"Basic {_basic(self.faults.passwords[name])}":
            self._answer(401, {"www-authenticate": 'Basic realm="git"'})
        else:
            self._backend()

    def _page(self, authorization: str) -> bytes:
        credentials = b64decode(authorization.removeprefix("Basic ")).decode() if self.faults.echoes else "here"
        return f"there is nothing {credentials} for you\n".encode()

    def _answer(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for header, value in {**headers, "content-length": str(len(body)), "content-type": "text/plain"}.items():
            self.send_header(header, value)
        self.end_headers()
        self.wfile.write(body)

    def _backend(self) -> None:
        split = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": self.headers.get("git-protocol", ""),
            "REQUEST_METHOD": self.command,
            "PATH_INFO": split.path,
            "QUERY_STRING": split.query,
            "CONTENT_TYPE": self.headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", ""),
            "REMOTE_ADDR": self.client_address[0],
        }
        run = subprocess.run(["git", "http-backend"], input=body, env=environment, capture_output=True, check=False)
        head, _, answer = run.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for header, value in headers.items():
            self.send_header(header, value)
        self.end_headers()
        cut = self.faults.cut_bytes if self.command == "POST" else 0
        self.wfile.write(answer[: cut or None])


def _basic(text: str) -> str:
    return b64encode(text.encode()).decode()
