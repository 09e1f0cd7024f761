"""The environment of the documented commands: a home with repositories, a checkout, real servers, free ports.

A command that ends by itself runs in this process; a server or a worker runs as a process, is awaited until it is
ready, and is stopped with the signal a user sends. The docs' placeholders (`redis://store:6379`, `localhost:6070`) are
replaced by local addresses.
"""

import http.client
import io
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from click.testing import CliRunner

from argosy.base.backends.servers import HOST, free_ports
from argosy.cli.root import cli
from tests.architecture.tree import ROOT
from tests.docs.blocks import Command
from tests.journeys.fleet import eventually
from tests.search.backends.repositories import Repo
from tests.servers.etcd import Etcd
from tests.servers.git_http import git_server
from tests.servers.valkey import Valkey

READY_S_MAX = 90.0  # 3 to 6 s on an idle machine
STOP_S_MAX = 60.0
COMMAND_S_MAX = 120.0
TOKEN = "the-admin-token"
# A short-lived fleet on one machine: no leases were lost, and there is no successor to wait for.
SETTINGS = {
    "ARGOSY_OWNERSHIP_GRACE_S": "0",
    "ARGOSY_OWNERSHIP_DRAIN_TIMEOUT_S": "1",
    "ARGOSY_NODE_ADMIN_TOKEN": TOKEN,
    "ARGOSY_IPNI_SYNC_ALLOW_PRIVATE": "true",
    "TOKEN": TOKEN,
}
UNSUPPORTED = set("|&;<>")  # the docs have no pipes and redirections; add them here when they do
MAIN_GO = b"package main\n\nfunc NewClient() {}\n\nfunc main() { NewClient() } // needle\n"
LIST = "# shipyards\nhttps://example.org/sea/oars.git main next\nhttps://github.com/owner/tool\n"


@dataclass
class Running:
    """A process that a documented command started."""

    command: Command
    process: "subprocess.Popen[bytes]"
    log: Path
    stops_by: signal.Signals

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(self.stops_by)
        code = self.process.wait(STOP_S_MAX)
        assert code == 0, f"{self.command}: exited with {code}\n{self.tail()}"

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]

    def assert_alive(self) -> None:
        assert self.process.poll() is None, f"{self.command}: exited\n{self.tail()}"


@dataclass(frozen=True)
class Outcome:
    code: int
    output: str


class World:
    """The state shared by the commands of one page."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self.home, self.checkout = folder / "home", folder / "argosy"
        self.port, self.grpc_port, self.indexer_port, self.assigner_port, self.chain_port = free_ports(5)
        self.running: list[Running] = []
        self._closing = ExitStack()
        self._valkey: Valkey | None = None
        self._etcd: Etcd | None = None
        self._git_url: str | None = None
        self._create_files()
        inherited = {name: value for name, value in environ.items() if not name.startswith("ARGOSY_")}
        self.environ = {
            **inherited,
            **SETTINGS,
            "HOME": str(self.home),
            "XDG_DATA_HOME": str(self.home / ".local" / "share"),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "XDG_STATE_HOME": str(self.home / ".local" / "state"),
            # Compiled kernels are shared with the user who runs the tests: compilation takes a minute.
            "XDG_CACHE_HOME": environ.get("XDG_CACHE_HOME", str(Path(environ.get("HOME", "/")) / ".cache")),
            "PYTHONPATH": str(ROOT / "src"),
            "ARGOSY_NODE_PORT": str(self.port),
            "ARGOSY_JOBS_GRPC_PORT": str(self.grpc_port),
            "ARGOSY_IPNI_HTTP_PORT": str(self.indexer_port),
            "ARGOSY_ASSIGNER_PORT": str(self.assigner_port),
        }

    def __enter__(self) -> "World":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        for each in self.running:
            if error is not None:
                error.add_note(f"{each.command}:\n{each.tail()}")
            each.process.kill()
            each.process.wait()
        self._closing.close()

    def _create_files(self) -> None:
        """Two repositories and some documents at home; the checkout has the parts of this tree that the docs search."""
        source = Repo.create(self.home / "src" / "tool")
        source.commit({"main.go": MAIN_GO, "Makefile": b"all:\n\tgo build\n", "config.c": b"int level = 3;\n"})
        Repo.create(self.home / "src" / "other").commit({"notes.md": b"# notes\n"})
        for folder, name, content in (("papers", "one.txt", b"one\n"), ("Downloads", "config.c", b"int level = 3;\n")):
            (self.home / folder).mkdir()
            (self.home / folder / name).write_bytes(content)
        skipped = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
        for name in ("examples", "src/argosy/search"):
            shutil.copytree(ROOT / name, self.checkout / name, ignore=skipped)
        (self.checkout / "dump.sql").write_text("insert into hay values ('needle');\n")
        (self.checkout / "list.txt").write_text(LIST)
        checkout = Repo.create(self.checkout)
        checkout.commit({"notes.md": b"TODO: branch\n"})
        checkout.git("branch", "dev")

    # Placeholders

    @property
    def valkey(self) -> str:
        if self._valkey is None:
            self._valkey = self._closing.enter_context(Valkey())
        return self._valkey.url.removesuffix("/0")

    @property
    def etcd(self) -> str:
        if self._etcd is None:
            self._etcd = self._closing.enter_context(Etcd())
        return self._etcd.url

    @property
    def repository_url(self) -> str:
        """A repository on git's own HTTP server."""
        if self._git_url is None:
            server = self._closing.enter_context(git_server(self.folder / "git"))
            self._git_url = server.serve_clone(Repo(self.home / "src" / "tool"), "name")
        return self._git_url

    def placeholders(self) -> dict[str, Callable[[], str]]:
        """The docs' placeholders and their local values; evaluated only where used."""
        here = f"{HOST}:{self.port}"
        indexer = f"http://{HOST}:{self.indexer_port}"
        return {
            "redis://127.0.0.1:6379/0": lambda: f"{self.valkey}/0",
            "redis://h:6379": lambda: self.valkey,
            "redis://store:6379": lambda: self.valkey,
            "redis://cache:6379": lambda: self.valkey,
            "etcd://a:2379,b:2379": lambda: self.etcd,
            "https://github.com/owner/name": lambda: self.repository_url,
            "http://127.0.0.1:6070": lambda: f"http://{here}",
            "http://gateway:6070": lambda: f"http://{here}",
            "localhost:6070": lambda: here,
            "--host localhost": lambda: f"--host {HOST} --port {self.port} --no-pager",
            "127.0.0.1:7450": lambda: f"{HOST}:{self.grpc_port}",
            "http://127.0.0.1:3000": lambda: indexer,
            "ARGOSY_IPNI_HTTP_PORT=3000": lambda: f"ARGOSY_IPNI_HTTP_PORT={self.indexer_port}",
            "http://10.0.0.1:3000": lambda: indexer,
            'host = "10.0.0.1"': lambda: f'host = "{HOST}"',
            "http://10.0.0.2:3000": lambda: f"http://{HOST}:{self.chain_port}",  # an indexer that is down
            "https://cid.contact": lambda: indexer,
            "https://chain.example.org": lambda: f"http://{HOST}:{self.chain_port}",
            "12D3KooWEW5GoYak4S23Z9rSiKHAcKWx9qH7rwVgCsmvRyvghB8x": self._publisher,
            "job watch ID": lambda: f"job watch {self._first_id('job', 'list')}",
            "shard split ID": lambda: f"shard split {self._first_id('shard', 'list')}",
        }

    def substitute(self, text: str) -> str:
        for placeholder, value in self.placeholders().items():
            if placeholder in text:
                text = text.replace(placeholder, value())
        return text

    def _first_id(self, *words: str) -> str:
        listed = self._invoke([*words, "--json"], {})
        assert listed.code == 0, listed.output
        found: str = json.loads(listed.output)[0]["id"]
        return found

    def _publisher(self) -> str:
        listed = self._invoke(["ipni", "providers", "--json"], {})
        assert listed.code == 0, listed.output
        found: str = json.loads(listed.output)[0]["id"]
        return found

    # Running commands

    def expand(self, text: str) -> tuple[dict[str, str], list[str]]:
        """The variables and words of a command line, as bash parses them here."""
        lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
        lexer.commenters = "#"
        lexer.whitespace_split = True
        operators = [token for token in lexer if token and set(token) <= UNSUPPORTED]
        assert not operators, f"the harness runs no {operators}: extend tests/docs/world.py"
        script = f"printf '%s\\0' {text}"
        command = ["bash", "-c", script]
        ran = subprocess.run(command, cwd=self.checkout, env=self.environ, capture_output=True, text=True)
        assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
        words = ran.stdout.split("\0")[:-1]
        variables = {}
        while re.match(r"[A-Z_]+=", words[0]):
            name, _, value = words.pop(0).partition("=")
            variables[name] = value
        return variables, words

    def execute(self, command: Command, text: str) -> Outcome:
        """Run a command that ends by itself."""
        variables, words = self.expand(text)
        program, *rest = words
        if program == "argosy":
            return self._invoke(rest, variables)
        if program == "curl":
            return _request(rest)
        assert program in (".venv/bin/python", "zoekt-py"), f"{command}: no rule for {program}"
        start = [sys.executable] if program == ".venv/bin/python" else [str(Path(sys.executable).with_name(program))]
        ran = subprocess.run(
            [*start, *rest],
            cwd=self.checkout,
            env={**self.environ, **variables},
            capture_output=True,
            text=True,
            timeout=COMMAND_S_MAX,
        )
        return Outcome(ran.returncode, ran.stdout + ran.stderr)

    def _invoke(self, words: list[str], variables: Mapping[str, str]) -> Outcome:
        ran = CliRunner().invoke(cli, words, env={**self.environ, **variables})
        if ran.exception is not None and not isinstance(ran.exception, SystemExit):
            raise ran.exception
        return Outcome(ran.exit_code, ran.output)

    def start(self, command: Command, text: str, **settings: str) -> Running:
        """Start a command that runs until it is stopped, and wait until it is ready."""
        variables, words = self.expand(text)
        program, *rest = words
        assert program == "argosy", command
        if rest[0] in ("up", "serve"):
            (self.port,) = free_ports(1)
            self.environ["ARGOSY_NODE_PORT"] = str(self.port)
            rest += ["--port", str(self.port)]
            is_ready, stops_by = _answers_ready(self.port), signal.SIGTERM
        elif rest[:2] == ["ipni", "publish"]:
            rest += ["--port", str(self.chain_port)]
            is_ready, stops_by = _listens(self.chain_port), signal.SIGINT
        else:
            is_ready, stops_by = None, signal.SIGTERM
        running = self._spawn(command, [sys.executable, "-m", "argosy.cli", *rest], {**variables, **settings}, stops_by)
        ready = is_ready or (lambda: running.log.stat().st_size > 0)  # a worker prints its log

        def is_ready_now() -> bool:
            running.assert_alive()
            return ready()

        try:
            eventually(is_ready_now, within_s=READY_S_MAX, what=f"{command} is ready")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{running.tail()}") from None
        return running

    def start_script(self, command: Command, program: str) -> Running:
        path = self.checkout / f"line_{command.line}.py"
        path.write_text(program)
        return self._spawn(command, [sys.executable, str(path)], {}, signal.SIGTERM)

    def _spawn(
        self, command: Command, words: list[str], variables: Mapping[str, str], stops_by: signal.Signals
    ) -> Running:
        log = self.folder / f"{len(os.listdir(self.folder))}.log"
        environ = {**self.environ, **variables}
        with log.open("wb") as out:
            process = subprocess.Popen(words, cwd=self.checkout, env=environ, stdout=out, stderr=out)
        running = Running(command, process, log, stops_by)
        self.running.append(running)
        return running

    def stop(self, which: Sequence[Running]) -> None:
        for each in [each for each in which if each in self.running]:
            self.running.remove(each)
            try:
                each.stop()
            except BaseException:
                each.process.kill()
                each.process.wait()
                raise


def capture(run: Callable[[], None]) -> str:
    shown = io.StringIO()
    with redirect_stdout(shown):
        run()
    return shown.getvalue()


def _answers_ready(port: int) -> Callable[[], bool]:
    def is_ready_now() -> bool:
        connection = http.client.HTTPConnection(HOST, port, timeout=10)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    return is_ready_now


def _listens(port: int) -> Callable[[], bool]:
    def is_ready_now() -> bool:
        try:
            socket.create_connection((HOST, port), timeout=1).close()
        except OSError:
            return False
        return True

    return is_ready_now


def _request(words: list[str]) -> Outcome:
    """The part of curl that the docs use: -s, -N, -d, -H, an address. The codes are curl's."""
    headers, body, address = {}, None, ""
    rest = iter(words)
    for word in rest:
        if word == "-d":
            body = next(rest)
        elif word == "-H":
            name, _, value = next(rest).partition(":")
            headers[name] = value.strip()
        elif word in ("-s", "-N", "-sN"):
            continue
        else:
            assert not word.startswith("-"), f"curl {word}: extend tests/docs/world.py"
            address = word if "://" in word else f"http://{word}"
    split = urlsplit(address)
    path = split.path + (f"?{quote(split.query, safe='=&:(')}" if split.query else "")
    connection = http.client.HTTPConnection(split.netloc, timeout=COMMAND_S_MAX)
    try:
        connection.request("GET" if body is None else "POST", path, body, headers)
        answer = connection.getresponse()
        return Outcome(0 if answer.status < 400 else 22, answer.read().decode())
    except OSError as error:
        return Outcome(7, f"{address}: {error}")
    finally:
        connection.close()
